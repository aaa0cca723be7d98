// A test in a network of its own has port 111 and /run for itself.

package machine

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// outsideEnv is the network where TestApart began.
const outsideEnv = "NFSRDMA_TEST_OUTSIDE"

// TestApart: inside, port 111 is free and /run empty; outside nothing changes.
func TestApart(t *testing.T) {
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatalf("os.Readlink: %v", err)
	}
	if os.Getenv(apartEnv) == "" {
		t.Setenv(outsideEnv, network)
	}
	if !Apart(t) {
		return
	}
	if network == os.Getenv(outsideEnv) {
		t.Error("the network is not its own")
	}
	l, err := net.Listen("tcp", ":111")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer l.Close()
	if c, err := net.Dial("tcp", "127.0.0.1:111"); err != nil {
		t.Errorf("net.Dial: %v", err)
	} else {
		c.Close()
	}
	if list, err := os.ReadDir("/run"); err != nil || len(list) > 0 {
		t.Errorf("/run has %v, %v", list, err)
	}
}

// TestApartTells: a test that fails inside, is not found or prints no sign of passing does not pass
// here.
func TestApartTells(t *testing.T) {
	if os.Getenv(apartEnv) != "" {
		t.Fatal("as it is to be")
	}
	if os.Geteuid() != 0 {
		Skip(t, "needs root")
	}
	if out, err := apart(t.Name()); err == nil || !strings.Contains(out, "as it is to be") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := apart("TestNothing"); err != nil || strings.Contains(out, "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLeaveMounts: a namespace keeps the named test mount and the mount that holds it, and no
// other. Names may have spaces.
func TestLeaveMounts(t *testing.T) {
	if !Apart(t) {
		return
	}
	dir := t.TempDir()
	mounted := func(name string) string {
		t.Helper()
		at := dir + "/" + name
		must.Succeed(t, os.MkdirAll(at, 0o755))
		must.Succeed(t, unix.Mount("none", at, "tmpfs", 0, "size=1m"))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		return at
	}
	mounted("a b")
	around := mounted("c")
	inner := mounted("c/d")
	mounted("c/e")
	for but, want := range map[string]string{"": "", inner: around + "\n" + inner + "\n"} {
		cmd := exec.Command("unshare", "-m", "sh", "-euc", LeaveMounts(`"$0"`)+`awk -v d="$1/" 'index($2, d) == 1 {print $2}' /proc/mounts`, but, dir)
		cmd.Stderr = os.Stderr
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("but %q: %v, left %q, want %q", but, err, out, want)
		}
	}
}
