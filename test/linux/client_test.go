// We use Linux: our client against the guest's knfsd, over its stock driver.

package linux

import (
	"context"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/wire"
)

// sizes are those where the transport changes its methods: the limits for inline and chunk, for
// page and segment, and one to each side.
var sizes = []int{0, 1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 - 1, 1 << 20}

// TestWeUseLinux: 6.1 runs everything. 6.12 runs less of the slow parts, and little with CRCs where
// the user network cuts trailers. When siw ends a connection after a misread trailer, 6.12's
// svcrdma frees a QP whose MRs are in use. Its kernel does not always survive that.
func TestWeUseLinux(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		series                    string
		files, names, connections int
		all                       bool
	}{
		{"6.1", 500, 10_000, 60, true},
		{"6.12", 100, 2000, 20, false},
	} {
		t.Run(c.series, func(t *testing.T) {
			enter(t, c.series)
			s := knfsd(t, c.series, guest.Stock, nil, wire.Want{ClientOurs: true})
			if c.all {
				t.Run("server-restarts", func(t *testing.T) { serverRestarts(t, s) })
			}
			t.Run("ls-cat-cp", func(t *testing.T) {
				if c.all {
					t.Run("rdma-crc-on-64MB", func(t *testing.T) { listCatCopy(t, rdmaTool(t, s), 64) })
				} else if guest.Direct() == nil {
					t.Run("rdma-crc-on-16MB", func(t *testing.T) { listCatCopy(t, rdmaTool(t, s), 16) })
				}
				t.Run("rdma-crc-off-16MB", func(t *testing.T) { listCatCopy(t, rdmaTool(t, s, "--crc", "off"), 16) })
				t.Run("tcp-16MB", func(t *testing.T) { listCatCopy(t, tcpTool(t, s), 16) })
			})
			t.Run("commands", func(t *testing.T) {
				t.Run("rdma", func(t *testing.T) { commands(t, rdmaTool(t, s)) })
				t.Run("tcp", func(t *testing.T) { commands(t, tcpTool(t, s)) })
			})
			t.Run("library", func(t *testing.T) {
				t.Run("rdma-crc-on", func(t *testing.T) { library(t, s.rdma, nfsclient.Options{MountPort: s.mountd}) })
				t.Run("rdma-crc-off", func(t *testing.T) {
					library(t, s.rdma, nfsclient.Options{MountPort: s.mountd, CRC: rnic.CRCOff, Conns: 3})
				})
				t.Run("tcp", func(t *testing.T) {
					library(t, s.tcp, nfsclient.Options{MountPort: s.mountd, Transport: nfsclient.TCP})
				})
			})
			t.Run("sizes-tcp", func(t *testing.T) { sizesRoundTrip(t, tcpTool(t, s)) })
			t.Run("tree", func(t *testing.T) { treeRoundTrip(t, rdmaTool(t, s), c.files) })
			t.Run("large-directory", func(t *testing.T) { largeDirectory(t, s, c.names) })
			t.Run("fresh-connections", func(t *testing.T) { freshConnections(t, rdmaTool(t, s), c.connections) })
			t.Run("sizes-rdma", func(t *testing.T) {
				for _, crc := range []string{"on", "off"} {
					sizesRoundTrip(t, rdmaTool(t, s, "--crc", crc))
				}
			})
			if c.all {
				t.Run("misread-trailer", func(t *testing.T) { misread(t, s) })
			}
			quiet(t, s.Guest)
		})
	}
}

// listCatCopy runs ls, cat, and cp both ways.
func listCatCopy(t *testing.T, c tool, megabytes int) {
	if out := c.do("ls", c.url()); !strings.Contains(out, "hello.txt\n") {
		t.Errorf("ls: %q", out)
	}
	if out := c.do("cat", c.path("hello.txt")); out != "hello from knfsd\n" {
		t.Errorf("cat: %q", out)
	}
	dir := t.TempDir()
	want := pattern(megabytes<<20, 1)
	write(t, filepath.Join(dir, "out"), want)
	c.do("cp", filepath.Join(dir, "out"), c.path("big"))
	c.do("cp", c.path("big"), filepath.Join(dir, "in"))
	sameFile(t, filepath.Join(dir, "in"), want)
	c.do("rm", c.path("big"))
}

// largeDirectory lists names that the guest itself has made.
func largeDirectory(t *testing.T, s *far, names int) {
	run(t, s.Guest, fmt.Sprintf("mkdir /export/many && cd /export/many && i=0; while [ $i -lt %d ]; do : > a-file-with-number-$i; i=$((i + 1)); done", names))
	for _, c := range []tool{rdmaTool(t, s), tcpTool(t, s)} {
		seen := map[string]bool{}
		lines := strings.Fields(c.do("ls", "-U", c.path("many")))
		for _, name := range lines {
			seen[name] = true
		}
		if len(lines) != names || len(seen) != names || !seen["a-file-with-number-0"] || !seen[fmt.Sprintf("a-file-with-number-%d", names-1)] {
			t.Errorf("over %s: %d names, %d different ones, want %d", c.scheme, len(lines), len(seen), names)
		}
	}
	run(t, s.Guest, "rm -r /export/many")
}

// freshConnections shows that each of many is answered, although the stock driver may
// lose the wake-up for our first FPDU.
func freshConnections(t *testing.T, c tool, connections int) {
	for i := range connections {
		if out := c.do("cat", c.path("hello.txt")); out != "hello from knfsd\n" {
			t.Fatalf("connection %d read %q", i, out)
		}
	}
}

// serverRestarts restarts knfsd during a copy. The copy succeeds, or fails within its time limit.
// All bytes that it reports copied are in the file.
func serverRestarts(t *testing.T, s *far) {
	a := s.again(t)
	c := rdmaTool(t, a.far)
	if guest.Direct() != nil {
		// A trailer that siw misreads can leave threads of knfsd that do not end: see misread.
		c.args = append(c.args, "--crc", "off")
	}
	restartWhileCopying(t, s.Guest, c)
	// A Read may be repeated for memory that Linux has released. Linux then sends a Terminate.
	a.check(wire.Want{ClientOurs: true, Cut: true, Terminates: 1})
}

func restartWhileCopying(t *testing.T, g *guest.Guest, c tool) {
	t.Helper()
	dir := t.TempDir()
	want := pattern(64<<20, 4)
	write(t, filepath.Join(dir, "out"), want)
	watching := filepath.Join(g.Share, "watching")
	os.Remove(watching)
	// While cp writes, the file has a temporary name. The watcher must be there first: a copy may
	// be quicker than a shell's start.
	away := start(t, g, `
: > /share/watching
n=0
until find /export -name '*big*' -size +4000000c | grep -q . || [ $n -gt 6000 ]; do n=$((n + 1)); sleep 0.1; done
[ ! -e /export/big ] || { echo "the copy has ended before the server goes" >&2; exit 1; }
rpc.nfsd 0 && sleep 1 && rpc.nfsd 8 && echo "rdma 20049" > /proc/fs/nfsd/portlist`)
	away.until("the guest watches", func() bool { _, err := os.Stat(watching); return err == nil })
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd := c.command(ctx, "cp", filepath.Join(dir, "out"), c.path("big"))
	done := make(chan error, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		t.Logf("cp: %v, %q", err, out)
		done <- err
	}()
	away.wait()
	err := <-done
	if ctx.Err() != nil {
		t.Fatal("the copy hangs")
	}
	if err == nil {
		// The guest computes the sum, which is much faster than copying the file back.
		if got, want := run(t, g, "md5sum < /export/big"), fmt.Sprintf("%x", md5.Sum(want)); !strings.HasPrefix(got, want) {
			t.Errorf("the copy has the sum %s, want %s", got, want)
		}
	}
	// Either way the server is usable again.
	small := want[:4<<20]
	write(t, filepath.Join(dir, "out"), small)
	c.do("cp", filepath.Join(dir, "out"), c.path("again"))
	c.do("cp", c.path("again"), filepath.Join(dir, "in"))
	sameFile(t, filepath.Join(dir, "in"), small)
	run(t, g, "rm -f /export/big /export/again")
	quiet(t, g, ` NFSD: `) // its message at each start
}
