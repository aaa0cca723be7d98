// The mounts' processes: their files, the unmount at the end of standard input, and the cleanup
// after a killed process.

package mountpeer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// peerEnv selects the mount that a child serves. A mount's process must not be the process that
// uses the mount.
const peerEnv = "NFSRDMA_MOUNTPEER_TEST"

func TestMain(m *testing.M) {
	what := os.Getenv(peerEnv)
	if what == "" {
		os.Exit(m.Run())
	}
	var err error
	if size, e := strconv.ParseUint(what, 10, 64); e == nil {
		err = Null(os.Args[1], size, os.Stdin, os.Stdout)
	} else {
		err = Loopback(os.Args[1], what, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A peer is the child process that serves a mount.
type peer struct {
	cmd *exec.Cmd
	in  io.Closer
	dir string
}

// start mounts the directory named what, or a file of zeros if its argument is a number.
func start(t *testing.T, what string) *peer {
	t.Helper()
	machine.NeedRoot(t, "mounts: needs root")
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		machine.Skip(t, fmt.Sprintf("needs /dev/fuse: %v", err))
	} else {
		f.Close()
	}
	p := &peer{dir: filepath.Join(t.TempDir(), "mnt")}
	must.Succeed(t, os.Mkdir(p.dir, 0o755))
	p.cmd = exec.Command(os.Args[0], p.dir)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), peerEnv+"="+what), os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = unix.Unmount(p.dir, unix.MNT_DETACH)
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != Ready+"\n" {
		t.Fatalf("it writes %q, %v", line, err)
	}
	return p
}

// end ends the process as its parent does, and checks that nothing is mounted any more.
func (p *peer) end(t *testing.T) {
	t.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := os.Remove(p.dir); err != nil { // EBUSY if it is still a mount point
		t.Errorf("os.Remove: %v", err)
	}
}

func TestNullIsMounted(t *testing.T) {
	const size = 1<<20 + 10
	p := start(t, strconv.Itoa(size))
	name := filepath.Join(p.dir, NullFile)
	content, err := os.ReadFile(name)
	if err != nil || len(content) != size || strings.Trim(string(content), "\x00") != "" {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("os.OpenFile: %v", err)
	}
	if n, err := f.WriteAt([]byte("dropped"), 1000); err != nil || n != 7 || f.Sync() != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("f.Close: %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "other")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another name: %v", err)
	}
	p.end(t)
}

func TestLoopbackShowsItsDirectory(t *testing.T) {
	root := t.TempDir()
	p := start(t, root)
	for from, to := range map[string]string{p.dir: root, root: p.dir} {
		name := filepath.Base(filepath.Dir(from)) + "file"
		must.Succeed(t, os.WriteFile(filepath.Join(from, name), []byte(from), 0o644))
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != from {
			t.Errorf("%q, %v", got, err)
		}
	}
	p.end(t)
	if names, err := os.ReadDir(root); err != nil || len(names) != 2 { // the source's files stay
		t.Errorf("%v, %v", names, err)
	}
}

// TestEndsWhereAnotherNamespaceHasACopy: the kernel keeps the connection while any mount namespace
// has the mount.
func TestEndsWhereAnotherNamespaceHasACopy(t *testing.T) {
	p := start(t, "10")
	other := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", machine.LeaveMounts(`"$0"`)+"echo there; read end", p.dir)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := other.Start(); err != nil {
		t.Fatalf("other.Start: %v", err)
	}
	defer func() { in.Close(); _ = other.Wait() }()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatalf("out.Read: %v", err)
	}
	p.end(t)
}

// A killed process's mount is detached and its directory removed; a nonempty directory is not.
func TestClear(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	must.Succeed(t, os.MkdirAll(filepath.Join(dir, "inside"), 0o755))
	if Clear(dir) {
		t.Error("a directory with something in it is gone")
	}
	if _, err := os.Stat(filepath.Join(dir, "inside")); err != nil {
		t.Errorf("os.Stat: %v", err)
	}
	if empty := filepath.Join(dir, "inside"); !Clear(empty) {
		t.Error("an empty directory stays")
	} else if _, err := os.Stat(empty); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
	p := start(t, "100")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("Process.Kill: %v", err)
	}
	_ = p.cmd.Wait()
	if !Clear(p.dir) {
		t.Error("the mount of a process that was killed stays")
	}
	if _, err := os.Lstat(p.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
}

// A missing directory can be neither a mount point nor the source.
func TestNothingToMount(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, err := range map[string]error{
		"null":             Null(none, 1, strings.NewReader(""), io.Discard),
		"loopback":         Loopback(none, t.TempDir(), strings.NewReader(""), io.Discard),
		"loopback of none": Loopback(t.TempDir(), none, strings.NewReader(""), io.Discard),
	} {
		if err == nil {
			t.Errorf("%s: mounted", name)
		}
	}
}

// If a mount cannot report its readiness, no program uses it, and it is unmounted at once.
func TestUnmountedWhenNobodyListens(t *testing.T) {
	start(t, "1").end(t) // skips the test where mounting is impossible
	dir := t.TempDir()
	r, w := io.Pipe()
	bad := errors.New("bad")
	r.CloseWithError(bad)
	if err := Null(dir, 1, strings.NewReader(""), w); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Errorf("os.Remove: %v", err)
	}
}
