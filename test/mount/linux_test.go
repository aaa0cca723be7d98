// Linux in a guest as the peer: its server under our mounts, and its client beside them on our
// server.

package mount

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// linuxImage returns the guests' image; the test is skipped where guests are not wanted, as in
// test/linux.
func linuxImage(t *testing.T, series string) *image.Image {
	t.Helper()
	if os.Getenv("NFSRDMA_LINUX") == "" {
		t.Skip("the guests run with NFSRDMA_LINUX=1, as in ./test/run")
	}
	needMounts(t)
	img, err := image.Get(context.Background(), series, t.Logf)
	mustBoot(t, err)
	return img
}

// mustBoot skips a test where there can be no guest.
func mustBoot(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// closing ends a guest with the test.
func closing(t *testing.T, g *guest.Guest) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the guest's console:\n%s", g.Console())
		}
		g.Close()
	})
}

// TestLinuxServer: programs find the same on an export from Linux's server as on ours, over RDMA
// and TCP.
func TestLinuxServer(t *testing.T) {
	s, err := guest.BootServer(t.Context(), guest.Config{Image: linuxImage(t, "6.1")}, guest.Fixed)
	mustBoot(t, err)
	closing(t, s.Guest)
	watchClients(t, s.Guest)
	_, mountPort := hostPort(t, s.Mount)
	for proto, address := range map[string]string{"rdma": s.RDMA, "tcp": s.TCP} {
		t.Run(proto, func(t *testing.T) {
			host, port := hostPort(t, address)
			options := fmt.Sprintf("proto=%s,port=%s,mountport=%s", proto, port, mountPort)
			peer{name: "knfsd", host: host, export: "/export", options: options, slow: true, unknown: guest.Direct() != nil}.check(t)
		})
	}
}

// watchClients starts the status monitor, without which knfsd locks nothing.
func watchClients(t *testing.T, g *guest.Guest) {
	t.Helper()
	need(t, "rpc.statd")
	ctx, cancel := context.WithTimeout(t.Context(), workerLimit)
	defer cancel()
	statd, err := g.FromHost(ctx, "rpc.statd")
	if err == nil {
		_, err = g.Run(ctx, "ip link set lo up; mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak; "+statd+" --no-notify")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hostPort takes an address apart.
func hostPort(t *testing.T, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatalf("net.SplitHostPort: %v", err)
	}
	return host, port
}

// A side is a mount of our server, in the guest by Linux or here by us.
type side struct {
	name string
	run  func(script string) string // in the directory of the mount
}

// TestLinuxClient: our mount sees content at the next open after Linux's client has closed the
// file, and the reverse. Either sees changed names once it has asked for the directory's attributes
// again.
func TestLinuxClient(t *testing.T) {
	g, err := guest.Boot(t.Context(), guest.Config{Image: linuxImage(t, "6.1"), MemoryMB: 768})
	mustBoot(t, err)
	closing(t, g)
	inGuest := func(text string) string {
		ctx, cancel := context.WithTimeout(t.Context(), workerLimit)
		defer cancel()
		out, err := g.Run(ctx, text)
		if err != nil {
			t.Fatalf("g.Run: %v", err)
		}
		return out
	}
	inGuest("client_up && mkdir -p /mnt")
	s := startServer(t, "--addr", g.Listen)
	for linux, ours := range map[string]string{"rdma": "tcp", "tcp": "rdma"} {
		for _, export := range []string{"/export", "/memory"} {
			t.Run("linux-"+linux+"-ours-"+ours+export, func(t *testing.T) {
				const options = "acdirmin=1,acdirmax=1"
				dir := mountAs(t, nil, g.Listen, s.options(ours), export, options)
				port := s.rdma
				if linux == "tcp" {
					port = s.tcp
				}
				inGuest(fmt.Sprintf("mount_%s %s:%s /mnt %d %d %s", linux, g.Host, export, port, s.tcp, options))
				defer inGuest("umount /mnt")
				sub := "sides-" + filepath.Base(dir)
				us := side{"our mount", func(text string) string { return script(t, filepath.Join(dir, sub), text) }}
				them := side{"Linux", func(text string) string { return inGuest("cd /mnt/" + sub + " || exit 1\nset -e\n" + text) }}
				inGuest("mkdir /mnt/" + sub + " && cd /mnt/" + sub + " && touch f0 f1 f2 log")
				script(t, dir, "until test -e "+sub+"/log; do sleep 0.1; done")
				contentsBothWays(t, us, them)
				namesBothWays(t, us, them)
			})
		}
	}
}

// contentsBothWays lets the sides write and read by turns.
func contentsBothWays(t *testing.T, us, them side) {
	t.Helper()
	const check = "\nfor f in f0 f1 f2 log; do sha256sum < $f; wc -c < $f; done"
	size := 1
	for i := range scaled(12, 200) {
		if i%4 != 3 { // sometimes only the contents differ
			size = 1 + rand.IntN(100000)
		}
		ways := []string{"| dd of=f0 conv=notrunc 2> /dev/null", "> f1", "> tmp; mv tmp f2", "| wc -c >> log"}
		from, to := us, them
		if i/2%2 == 1 {
			from, to = them, us
		}
		way := ways[rand.IntN(len(ways))]
		want := from.run(fmt.Sprintf("head -c %d /dev/urandom %s%s", size, way, check))
		if got := to.run(check); trimmed(got) != trimmed(want) {
			t.Fatalf("round %d, %d bytes %s: %s sees\n%s\n%s wrote\n%s", i, size, way, to.name, got, from.name, want)
		}
	}
}

// namesBothWays lets each side make, rename and remove names that the other waits for: a
// directory's entries may be as old as its attributes.
func namesBothWays(t *testing.T, us, them side) {
	t.Helper()
	for _, by := range []struct{ from, to side }{{us, them}, {them, us}} {
		await := func(what string) { by.to.run("until " + what + "; do sleep 0.1; done") }
		by.to.run("test ! -e new; ls > /dev/null") // it caches that there is none
		by.from.run("echo text > new; mkdir dir; ln -s new link")
		await(`test "$(cat new link 2> /dev/null)" = "text
text"`)
		await(`ls | grep -q -x dir`)
		by.from.run("mv new moved; rmdir dir; rm link")
		await("test ! -e new && test -e moved")
		await("! ls | grep -q -x -e dir -e link -e new")
		if got := trimmed(by.to.run("cat moved")); got != "text" {
			t.Errorf("%s read %q", by.to.name, got)
		}
		by.to.run("rm moved")
		by.from.run("until test ! -e moved; do sleep 0.1; done")
	}
}

// trimmed returns text with single spaces: busybox and coreutils differ in theirs.
func trimmed(s string) string { return strings.Join(strings.Fields(s), " ") }
