// When the suite runs, the guests that its tests share, and how a test is skipped.

package linux

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/several"
	"github.com/nfsrdma/nfsrdma/test/wire"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// asked is the environment variable by which ./test/run turns the suite on; go test ./... stays
// quick and hermetic.
const asked = "NFSRDMA_LINUX"

var (
	mu      sync.Mutex
	clients = map[string]*guest.Guest{} // by kernel series
	bin     string                      // directory of the programs under test
)

func TestMain(m *testing.M) {
	several.Main()
	// go test counts tests that wait for their turn as running.
	flag.Parse()
	flag.Set("test.parallel", "64")
	code := m.Run()
	for _, g := range clients {
		g.Close()
	}
	if bin != "" {
		os.RemoveAll(bin)
	}
	os.Exit(code)
}

// kernel returns the image of a series, or skips the test.
func kernel(t *testing.T, series string) *image.Image {
	t.Helper()
	if os.Getenv(asked) == "" {
		t.Skipf("the Linux suite runs with %s=1, as in ./test/run", asked)
	}
	img, err := image.Get(context.Background(), series, t.Logf)
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return img
}

// onUserNetwork logs once that guests get no tap device. Tests that need the device skip
// themselves.
func onUserNetwork(t *testing.T) {
	t.Helper()
	err := guest.Direct()
	if err == nil {
		return
	}
	userNetwork.Do(func() {
		why := "all guests are on QEMU's user network: " + err.Error()
		t.Log(why)
		if os.Getenv("CI") != "true" {
			machine.Note(t, why)
		}
	})
}

var userNetwork sync.Once

// turns has a lock for each kernel: tests for different kernels run side by side, and those for one
// kernel one after another.
var turns = map[string]*sync.Mutex{"6.1": {}, "6.12": {}}

// enter waits for the test's turn with the guests of kernels, which lasts until its end. Callers
// name kernels in ascending order, so that no two tests wait for each other.
func enter(t *testing.T, series ...string) {
	t.Helper()
	for _, s := range series {
		kernel(t, s)
	}
	t.Parallel()
	asked := time.Now()
	for _, s := range series {
		turns[s].Lock()
		t.Cleanup(turns[s].Unlock)
	}
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("took %v, after %v in line", time.Since(began).Round(time.Second), began.Sub(asked).Round(time.Second))
	})
}

// mtu is the MTU of the tap devices: one kernel has ordinary Ethernet, the other jumbo frames.
var mtu = map[string]int{"6.1": 9000, "6.12": 1500}

// client returns the long-lived guest that mounts our servers. Each kernel has one such guest.
func client(t *testing.T, series string) *guest.Guest { return clientOn(t, series, "") }

// clientOn returns the guest for a kernel, like client. A new guest takes over an ended guest's
// network if device names it.
func clientOn(t *testing.T, series, device string) *guest.Guest {
	t.Helper()
	img := kernel(t, series)
	onUserNetwork(t)
	mu.Lock()
	g := clients[series]
	mu.Unlock()
	if g != nil {
		return g
	}
	g, err := guest.Boot(t.Context(), guest.Config{Image: img, MemoryMB: 1024, MTU: mtu[series], Device: device})
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatalf("Boot: %v", err)
	}
	mu.Lock()
	clients[series] = g
	mu.Unlock()
	run(t, g, "client_up && dmesg -c > /dev/null")
	return g
}

// A far is a server in a guest, with its addresses for one client: in another guest, or ours on
// this machine.
type far struct {
	*guest.Guest
	host              string
	rdma, tcp, mountd int    // rdma is a tap's port: all its traffic is checked
	behind            string // the address behind the tap
}

// reach returns a guest's server as the client sees it, in guest client or, if that is nil, on this
// machine.
func reach(t *testing.T, s *guest.Server, client *guest.Guest, want *wire.Want) *far {
	t.Helper()
	host, listen := "127.0.0.1", "127.0.0.1"
	if client != nil {
		host, listen = client.Host, client.Listen
	}
	return &far{
		Guest: s.Guest, host: host, behind: s.RDMA,
		rdma: watched(t, listen, s.RDMA, want), tcp: relay(t, listen, s.TCP), mountd: relay(t, listen, s.Mount),
	}
}

// again returns the same server through a further tap, for our client.
func (s *far) again(t *testing.T) *tapped {
	t.Helper()
	other := *s
	tp, check := tapping(t, "127.0.0.1", s.behind)
	other.rdma = tp.Port()
	return &tapped{&other, tp, check}
}

// tapped has a tap that its user checks.
type tapped struct {
	*far
	tap   *tap.Tap
	check func(wire.Want)
}

// mount returns the command by which the client mounts this server at /mnt.
func (s *far) mount(proto, options string) string {
	port := s.rdma
	if proto == "tcp" {
		port = s.tcp
	}
	return mountCommand(proto, s.host, port, s.mountd, options)
}

// knfsd boots Linux's server for one test and its client; client nil: our client on this machine.
func knfsd(t *testing.T, series string, siw guest.Siw, client *guest.Guest, want wire.Want) *far {
	t.Helper()
	img := kernel(t, series)
	s, err := guest.BootServer(t.Context(), guest.Config{Image: img, MTU: mtu[series]}, siw)
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatalf("BootServer: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the guest's console:\n%s", s.Guest.Console())
		}
		s.Close()
	})
	run(t, s.Guest, "dmesg -c > /dev/null") // messages from its start
	return reach(t, s, client, &want)
}

// Bounds against hanging: for one script in a guest, and for one command of ours. They suit a
// machine that is ten times too busy.
const (
	scriptTime  = 15 * time.Minute
	commandTime = 10 * time.Minute
)

// run runs a script that must succeed, and returns its output. A guest whose script hangs is given
// up, so that later tests get a fresh one.
func run(t *testing.T, g *guest.Guest, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	out, err := g.Run(ctx, script)
	if ctx.Err() != nil {
		forget(g)
	}
	if err != nil {
		t.Fatalf("g.Run: %v", err)
	}
	return out
}

func forget(g *guest.Guest) {
	mu.Lock()
	defer mu.Unlock()
	for series, c := range clients {
		if c == g {
			delete(clients, series)
		}
	}
	g.Close()
}

// program builds one of the repository's commands, once, and returns its path. They are
// static, so they also run in the guest.
func program(t *testing.T, pkg string) string {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if bin == "" {
		dir, err := os.MkdirTemp("", "nfsrdma-bin-")
		if err != nil {
			t.Fatalf("os.MkdirTemp: %v", err)
		}
		bin = dir
	}
	path := filepath.Join(bin, filepath.Base(pkg))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.Command("go", "build", "-o", path, "github.com/nfsrdma/nfsrdma/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", pkg, err, out)
	}
	return path
}

// intoGuest copies a program into the guest and returns the command there.
func intoGuest(t *testing.T, g *guest.Guest, path string) string {
	t.Helper()
	name := filepath.Base(path)
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(filepath.Join(g.Share, name), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Run it from memory, not through the shared directory.
	run(t, g, fmt.Sprintf("cp /share/%s /tmp/%s && chmod 755 /tmp/%s", name, name, name))
	return "/tmp/" + name
}
