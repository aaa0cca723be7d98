// Linux's server when siw misreads a trailer while the server reads from us.

package linux

import (
	"crypto/md5"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/test/wire"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// blockedThreads lists the stacks of knfsd's threads that no signal reaches.
const blockedThreads = `for p in /proc/[0-9]*; do
	grep -q '^nfsd$' $p/comm 2> /dev/null && grep -q '^State:.D' $p/status && { echo "thread ${p#/proc/}:"; cat $p/stack; }
done; true`

// misread cuts the CRC in a Read Response while Linux's server reads our data. siw ends the
// connection and completes none of its waiting RDMA Reads, so each knfsd thread that had one is
// blocked permanently. We go on over another connection, with the remaining threads.
func misread(t *testing.T, s *far) {
	a := s.again(t)
	var responses atomic.Int64
	a.tap.Split(tap.ToServer, func(fpdu []byte) int {
		if rdmap.Opcode(fpdu[3]&0xf) != rdmap.OpReadResponse || responses.Add(1) != 100 {
			return 0
		}
		return len(fpdu) - mpa.CRCLen/2
	})
	c := rdmaTool(t, a.far)
	local := filepath.Join(t.TempDir(), "out")
	want := pattern(16<<20, 10)
	write(t, local, want)
	c.do("cp", local, c.path("misread"))
	if got, want := run(t, s.Guest, "md5sum < /export/misread"), fmt.Sprintf("%x", md5.Sum(want)); !strings.HasPrefix(got, want) {
		t.Errorf("the copy has the sum %s, want %s", got, want)
	}
	a.check(wire.Want{CRC: true, ClientOurs: true, Cut: true})
	if said := run(t, s.Guest, "dmesg"); !strings.Contains(said, "siw: crc error") {
		t.Error("siw did not misread a trailer")
	}
	t.Logf("%d Read Responses; blocked:\n%s", responses.Load(), run(t, s.Guest, blockedThreads))
}
