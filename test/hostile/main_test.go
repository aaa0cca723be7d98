// Setup for all tests here: no log output, a high limit on descriptors, and servers to attack.

package hostile

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"

	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

var bg = context.Background()

// full selects the full size of floods.
var full = os.Getenv("NFSRDMA_FULL") != ""

// descriptors is this process's limit on open descriptors.
var descriptors int

func TestMain(m *testing.M) {
	machine.QuietLog()
	var lim syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim) == nil {
		lim.Cur = lim.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim)
		_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim)
		descriptors = int(min(lim.Cur, 1<<20))
	}
	if os.Getenv(serverEnv) != "" {
		if err := serveAlone(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A target is a server under attack and a peer that has mounted it.
type target struct {
	*peer.Peer
	t     *testing.T
	s     *rig.Server
	works func() // the other clients make progress
	root  nfs3.FH
}

func attack(t *testing.T) *target { t.Helper(); return attackWith(t, rig.Config{}) }

func attackWith(t *testing.T, cfg rig.Config) *target {
	t.Helper()
	s, works := rig.Attacked(t, cfg)
	p := peer.Dial(t, s.RDMA)
	return &target{Peer: p, t: t, s: s, works: works, root: p.Mount(rig.Export)}
}

// memory registers b with the peer under a handle, at an offset that is not zero.
func (a *target) memory(handle uint32, b []byte) (offset uint64) {
	offset = uint64(handle)<<32 + 0x1000
	a.Memory[handle] = &peer.Region{Base: offset, B: b}
	return offset
}

// pattern returns n bytes that are not all alike.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}
