// A directory on an unresponsive file system at the server's start.

package program

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
)

// TestServeBesideHungDirectory: while one export's directory does not answer, the other export is
// served. The first is served once its directory answers.
func TestServeBesideHungDirectory(t *testing.T) {
	defer func(wait time.Duration) { newFS, openWait = osfs.New, wait }(openWait)
	hung, ok := t.TempDir(), t.TempDir()
	answers := make(chan struct{})
	newFS = func(dir string, o osfs.Options) (*osfs.FS, error) {
		if dir == hung {
			<-answers
		}
		return osfs.New(dir, o)
	}
	openWait = 100 * time.Millisecond
	o := &options{ephemeral: true}
	srv, _, err := newServer(o, []string{hung + "=/hung", ok + "=/ok"})
	if err != nil {
		t.Fatalf("newServer: %v", err)
	}
	svc, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("srv.Start: %v", err)
	}
	ctx := context.Background()
	c, err := nfsclient.Dial(ctx, svc.TCPAddr.String(), nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	mount := func(name string) {
		for {
			if _, err := c.Mount(ctx, name); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	mount("/ok") // this directory may have been slow, too
	if _, err := c.Mount(ctx, "/hung"); err == nil {
		t.Error("/hung is served")
	}
	close(answers)
	mount("/hung")
	c.Close()
	if err := svc.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := srv.Close(); err != nil {
		t.Errorf("srv.Close: %v", err)
	}
}

// startFile serves the directories of an exports file over TCP until the test ends.
func startFile(t *testing.T, file string) (*exportSet, *nfsserver.Service) {
	t.Helper()
	srv, set, err := newServer(&options{ephemeral: true, exports: file, acl: "on"}, nil)
	if err != nil {
		t.Fatalf("newServer: %v", err)
	}
	t.Cleanup(func() { srv.Close() })
	v, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("srv.Start: %v", err)
	}
	t.Cleanup(func() { v.Shutdown(context.Background()) })
	return set, v
}

// TestRefusedReloadClosesWhatOpensLate: a refused file's directories are closed, even if the file
// system answers after the reload.
func TestRefusedReloadClosesWhatOpensLate(t *testing.T) {
	defer func(wait time.Duration) { newFS, openWait = osfs.New, wait }(openWait)
	ok, hung, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "exports")
	answers, opened := make(chan struct{}), make(chan error, 1)
	newFS = func(dir string, o osfs.Options) (*osfs.FS, error) {
		if dir != hung {
			return osfs.New(dir, o)
		}
		<-answers
		f, err := osfs.New(dir, o)
		opened <- err
		return f, err
	}
	put(t, file, ok+" *(rw,insecure)\n")
	set, v := startFile(t, file)
	openWait = 0
	// /nowhere seems to be served and is missing, so the reload is refused, however fast it is
	set.whole["/nowhere"] = set.whole[ok]
	put(t, file, ok+" *(rw,insecure)\n"+hung+" *(rw,insecure)\n/nowhere *(rw,insecure)\n")
	if _, err := set.reload(v); err == nil || !strings.Contains(err.Error(), "/nowhere has no file system") {
		t.Fatalf("reload: %v, want that /nowhere is not served", err)
	}
	close(answers)
	if err := <-opened; err != nil {
		t.Fatalf("opened: %v", err)
	}
	for isOpen(t, hung) {
		time.Sleep(time.Millisecond)
	}
}

// isOpen reports whether this process has a file or directory open.
func isOpen(t *testing.T, name string) bool {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == name {
			return true
		}
	}
	return false
}
