// Lines of mountinfo, and requests to a mount's process: answers, the wait for its end, and its
// absence.

package mountctl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

const lines = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
40 22 0:52 / /mnt/a\040b rw,nosuid,nodev,relatime shared:1 - fuse.nfsrdma srv:/x\134y ro,user_id=1000,group_id=0,allow_other
41 22 0:53 / /mnt/c rw master:2 shared:9 - fuse.nfsrdma srv:/two rw,user_id=0,group_id=0
42 22 0:54 / /mnt/c rw - tmpfs none rw
43 22 0:55 / /mnt/d rw - fuse.nfsrdma srv:/twice rw,user_id=0
44 22 0:56 / /mnt/e rw - fuse.nfsrdma srv:/twice rw,user_id=0
a line that is none
`

// useLines replaces the list of mounts.
func useLines(t *testing.T, text string) {
	t.Helper()
	old := mountinfo
	mountinfo = filepath.Join(t.TempDir(), "mountinfo")
	t.Cleanup(func() { mountinfo = old })
	must.Succeed(t, os.WriteFile(mountinfo, []byte(text), 0o600))
}

func TestMountinfo(t *testing.T) {
	useLines(t, lines)
	list, err := List()
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	if want := (Mount{`srv:/x\y`, "/mnt/a b", FSType, "ro,rw,nosuid,nodev,relatime", 52, 1000}); list[0] != want {
		t.Errorf("%+v, want %+v", list[0], want)
	}
	if m, ok, _ := At("/mnt/c"); !ok || m.Type != "tmpfs" {
		t.Errorf("what is mounted last: %+v", m)
	}
	for arg, want := range map[string]string{
		"/mnt/a b": "52", "srv:/two": "53", "/mnt/c": "not one of nfsrdma", "srv:/twice": "name the directory", "/mnt/zz": "not mounted", "nothing": "not mounted",
	} {
		m, err := Find(arg)
		switch {
		case err == nil && want != "52" && want != "53", err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s: %+v, %v", arg, m, err)
		}
	}
}

// Resolve follows links to a mount point, and does not access the mounted file system.
func TestResolve(t *testing.T) {
	dir := t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatalf("filepath.EvalSymlinks: %v", err)
	}
	for _, link := range []string{"link", "parent"} {
		must.Succeed(t, os.Symlink(dir, filepath.Join(dir, link)))
	}
	useLines(t, "40 22 0:52 / "+dir+"/gone rw - fuse.nfsrdma srv:/x rw,user_id=0\n")
	for arg, want := range map[string]string{"link": dir, "parent/link": dir, "gone": dir + "/gone", "parent/gone": dir + "/gone"} {
		if got, err := Resolve(filepath.Join(dir, arg)); got != want || err != nil {
			t.Errorf("%s: %s, %v", arg, got, err)
		}
	}
	if _, err := Resolve(filepath.Join(dir, "missing")); !os.IsNotExist(err) {
		t.Errorf("missing: %v", err)
	}
}

// serveOne starts the server for a mount by this user, and returns both.
func serveOne(t *testing.T) (Mount, *Server) {
	t.Helper()
	return serveHeld(t, func(context.Context) (bool, error) { return false, nil })
}

// serveHeld is like serveOne. held answers whether the kernel still has the mount.
func serveHeld(t *testing.T, held func(context.Context) (bool, error)) (Mount, *Server) {
	t.Helper()
	old := runDir
	runDir = t.TempDir()
	t.Cleanup(func() { runDir = old })
	m := Mount{Dir: "/mnt", Minor: 7, UID: uint32(os.Geteuid())}
	if m.UID != 0 {
		must.Succeed(t, os.MkdirAll(filepath.Dir(socketDirs(m.UID)[0]), 0o700))
	}
	s, err := Serve(m, func() any { return map[string]int{"calls": 3} }, held)
	if err != nil {
		t.Fatalf("Serve: %v", err)
	}
	return m, s
}

func TestControl(t *testing.T) {
	m, s := serveOne(t)
	c, err := Dial(m)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	var figures map[string]int
	for range 2 {
		if err := c.Stats(&figures); err != nil || figures["calls"] != 3 {
			t.Errorf("%v, %v", figures, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	c2, err := Dial(m)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	must.Succeed(t, c2.Stats(&figures))
	c3, err := Dial(m)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- c2.Wait(t.Context()) }()
	s.Close(errors.New("2 files not written"))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "2 files not written") {
		t.Errorf("the end: %v", err)
	}
	if err := c3.Stats(&figures); err == nil {
		t.Error("figures of an ended mount")
	}
	if _, err := Dial(m); !errors.Is(err, ErrNoProcess) {
		t.Errorf("after the end: %v", err)
	}
}

// A killed process has sent nothing, and its socket does not block the next one.
func TestKilledProcess(t *testing.T) {
	m, s := serveOne(t)
	c, err := Dial(m)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	s.l.SetUnlinkOnClose(false)
	s.l.Close()
	c.c.CloseWrite() // the server reads the end of the stream, and closes its end
	if err := c.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "may be lost") {
		t.Errorf("%v", err)
	}
	if _, err := Dial(m); !errors.Is(err, ErrNoProcess) {
		t.Errorf("%v", err)
	}
	next, err := Serve(m, func() any { return nil }, nil)
	if err != nil {
		t.Fatalf("Serve: %v", err)
	}
	next.Close(nil)
}

// Another user cannot impersonate the process.
func TestForeignDirectory(t *testing.T) {
	m, s := serveOne(t)
	defer s.Close(nil)
	dir := filepath.Dir(s.path)
	must.Succeed(t, os.Chmod(dir, 0o755))
	if _, err := Dial(m); err == nil {
		t.Error("a directory that others can enter is used")
	}
	if _, err := Serve(m, nil, nil); err == nil && m.UID == 0 {
		t.Error("a socket was made in it")
	}
	must.Succeed(t, os.Chmod(dir, 0o700))
	if os.Geteuid() == 0 {
		must.Succeed(t, os.Chown(dir, 4242, 4242))
		if _, err := Dial(m); err == nil {
			t.Error("somebody else's directory is used")
		}
	}
}

// A peer that waits for the end gets an answer to each of its requests. While the kernel still has
// the mount, the answer reports whether all data is written, and which data was lost. The end is
// reported as soon as it is known, even if a request is still running.
func TestHeld(t *testing.T) {
	type answer struct {
		kept bool
		err  error
	}
	answers := make(chan answer)
	m, s := serveHeld(t, func(ctx context.Context) (bool, error) {
		select {
		case a := <-answers:
			return a.kept, a.err
		case <-ctx.Done():
			return true, ctx.Err()
		}
	})
	c, err := Dial(m)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	if err := c.Stats(new(any)); err != nil {
		t.Fatalf("Stats: %v", err)
	}
	for range 2 {
		go func() { answers <- answer{kept: true} }()
		if err := c.Wait(t.Context()); !errors.Is(err, ErrHeld) {
			t.Errorf("%v, want ErrHeld", err)
		}
	}
	go func() { answers <- answer{true, errors.New("3 files not written")} }()
	if err := c.Wait(t.Context()); err == nil || errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "3 files not written") {
		t.Errorf("%v", err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait(t.Context()) }()
	answers <- answer{}
	s.Close(nil)
	if err := <-done; err != nil {
		t.Errorf("the kernel has let go: %v", err)
	}
}

// The end does not wait for an answer that is no longer needed.
func TestEndWhileHeldIsAsked(t *testing.T) {
	asked := make(chan struct{})
	m, s := serveHeld(t, func(ctx context.Context) (bool, error) {
		close(asked)
		<-ctx.Done()
		return true, ctx.Err()
	})
	c, err := Dial(m)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	if err := c.Stats(new(any)); err != nil {
		t.Fatalf("Stats: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait(t.Context()) }()
	<-asked
	s.Close(nil)
	if err := <-done; err != nil {
		t.Errorf("%v", err)
	}
}
