// Soft RoCE, which stock kernels bring: Linux mounts our server, and our client uses Linux's
// server, by rdma_rxe.

package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// full selects the long form of tests.
var full = os.Getenv("NFSRDMA_FULL") != ""

// rxeClient boots a guest with an rxe device for one test: Linux itself chooses between that and
// siw where it has both.
func rxeClient(t *testing.T, series string) *guest.Guest {
	t.Helper()
	g, err := guest.Boot(t.Context(), guest.Config{Image: kernel(t, series), MemoryMB: 1024, MTU: mtu[series], Direct: true})
	return rxeUp(t, g, err, "rxe_client_up")
}

// rxeUp runs script in a guest that boot has returned, and closes the guest at the test's end. With
// an error the test is skipped or fails.
func rxeUp(t *testing.T, g *guest.Guest, err error, script string) *guest.Guest {
	t.Helper()
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the guest's console:\n%s", g.Console())
		}
		g.Close()
	})
	run(t, g, script+" && dmesg -c > /dev/null")
	return g
}

// TestRxe: Linux's rxe accepts the RoCE that we send by an ordinary UDP socket. One kernel has an
// MTU of 4096, the other one of 1024.
func TestRxe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		series             string
		large, ours, names int
		kills              []int
	}{
		{"6.1", 16, 8, 20_000, []int{20}},
		{"6.12", 8, 8, 2000, []int{10}},
	} {
		t.Run(c.series, func(t *testing.T) {
			enter(t, c.series)
			if full {
				c.large, c.ours, c.names, c.kills = 64, 64, 20_000, []int{10, 28, 45}
			}
			t.Run("client", func(t *testing.T) { rxeMountsUs(t, c.series, c.large, c.names, c.kills) })
			t.Run("knfsd", func(t *testing.T) { weUseRxe(t, c.series, c.ours) })
		})
	}
}

func rxeMountsUs(t *testing.T, series string, large, names int, kills []int) {
	g := rxeClient(t, series)
	c := captureDevice(t, g.Device)
	s := serveRoCE(t, g, memoryDir(t))
	mount := s.mount("rdma", "")
	if out := run(t, g, mount+"\n"+clientSmall); !strings.Contains(out, "hello from nfsrdmad") {
		t.Errorf("the guest read %q", out)
	}
	run(t, g, mount)
	checks(t, g, fmt.Sprintf("-dir /mnt -large %d -run 'sizes|large|mmap|symlinks|names|parallel'", large))
	run(t, g, unmount)
	run(t, g, mount+guest.TreeScript)
	rxeErrors(t, g, s)
	quiet(t, g)
	s.stop()
	c.check(t, false)
	t.Run("many-names", func(t *testing.T) { rxeManyNames(t, g, names) })
	t.Run("killed", func(t *testing.T) {
		c := captureDevice(t, g.Device)
		killWhileWriting(t, serveRoCE(t, g, memoryDir(t)), "rdma", kills)
		if n := c.ends(t); n < len(kills) {
			t.Errorf("of %d servers that were killed the next ones have ended %d connections", len(kills), n)
		}
		quiet(t, g, append(slices.Clone(reconnects), registersTwice)...)
	})
}

// registersTwice is a message of 6.1's rxe. It repeats requests without an answer, for example
// while a server restarts slowly. Then it also repeats the registration of memory, which fails, and
// sends nothing any more.
const registersTwice = `rdma_rxe: rxe_reg_fast_mr: mr->lkey = 0x[0-9a-f]+ not free$`

// rxeManyNames lists a directory of many names, made on the host, with READDIRPLUS. A full run also
// lists it without.
func rxeManyNames(t *testing.T, g *guest.Guest, names int) {
	dir := memoryDir(t)
	many := manyNames(t, dir, names)
	s := serveRoCE(t, g, dir)
	ways := []string{""}
	if full {
		ways = append(ways, "nordirplus")
	}
	for _, options := range ways {
		run(t, g, s.mount("rdma", options))
		checks(t, g, fmt.Sprintf("-dir /mnt/%s -names %d", many, names))
		run(t, g, unmount)
	}
	s.stop()
	quiet(t, g)
}

// rxeErrors shows that the server's refusals reach the guest's programs unchanged.
func rxeErrors(t *testing.T, g *guest.Guest, s *server) {
	t.Helper()
	secret := filepath.Join(s.dir, "secret")
	write(t, secret, []byte("s"))
	must.Succeed(t, os.Chmod(secret, 0o600))
	out := run(t, g, s.mount("rdma", "")+"\n(su u1000 -c 'cat /mnt/secret'; cat /mnt/none; rmdir /mnt/hello.txt) 2>&1; "+unmount)
	for _, want := range []string{"Permission denied", "No such file", "Not a directory"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q does not say %q", out, want)
		}
	}
}

// roceTool returns our command with Linux's server in a guest as its peer, over RoCE.
func roceTool(t *testing.T, g *guest.Guest) tool {
	return tool{t: t, scheme: "nfsrdma", port: 20049, at: g.Guest, args: append([]string{"--rdma", "roce", "--mount-port", "20048"}, patience...)}
}

// rxeServer boots Linux's server with a device of rxe for one test.
func rxeServer(t *testing.T, series string) *guest.Guest {
	t.Helper()
	s, err := guest.BootServer(t.Context(), guest.Config{Image: kernel(t, series), MTU: mtu[series]}, guest.Rxe)
	var g *guest.Guest
	if s != nil {
		g = s.Guest
	}
	return rxeUp(t, g, err, "true")
}

func weUseRxe(t *testing.T, series string, large int) {
	g := rxeServer(t, series)
	c := captureDevice(t, g.Device)
	cp := roceTool(t, g)
	listCatCopy(t, cp, large)
	sizesRoundTrip(t, cp)
	treeRoundTrip(t, cp, 60)
	quiet(t, g)
	c.check(t, false)
	if full || series == "6.1" {
		t.Run("restarts", func(t *testing.T) { restartWhileCopying(t, g, cp) })
	}
}
