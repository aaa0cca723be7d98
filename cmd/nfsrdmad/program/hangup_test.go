// SIGHUP never ends a server, even one that has no files to reload or is still starting.

package program

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestHangupWithNothingToRead: the server continues, logs one line about it, and later ends
// normally.
func TestHangupWithNothingToRead(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	socket := filepath.Join(dir, "control")
	log := new(sharedBuffer)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{"serve", "--memory", "--ephemeral-key", "--tcp-port", port, "--rdma-port", "0", "--rpcbind", "off", "--control", socket}, "\n"))
	cmd.Stderr = log
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	awaitControl(t, socket)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatalf("Signal: %v", err)
		}
		for sig == syscall.SIGHUP && !strings.Contains(log.String(), "SIGHUP: nothing to read again") {
			select {
			case err := <-ended:
				t.Fatalf("SIGHUP has ended the server: %v\n%s", err, log)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	if err := <-ended; err != nil || strings.Count(log.String(), "SIGHUP") != 1 {
		t.Errorf("%v\n%s", err, log)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the control socket is left behind")
	}
}

// TestHangupBeforeServing: a SIGHUP during the start makes the server reload the file once it
// serves.
func TestHangupBeforeServing(t *testing.T) {
	// without guard, a signal that the server does not handle yet would end the tests
	guard := make(chan os.Signal, 1)
	signal.Notify(guard, syscall.SIGHUP)
	defer signal.Stop(guard)
	dir, port := t.TempDir(), freePort(t)
	a, b, file := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "exports")
	for _, d := range []string{a, b} {
		must.Succeed(t, os.Mkdir(d, 0o777))
	}
	put(t, file, a+" 127.0.0.1(insecure)\n")
	opening, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	newFS = func(dir string, o osfs.Options) (*osfs.FS, error) {
		once.Do(func() { close(opening) })
		<-goOn
		return osfs.New(dir, o)
	}
	t.Cleanup(func() { newFS = osfs.New }) // runs after the server has ended
	serveUntilEnd(t, "--exports", file, "--control", filepath.Join(dir, "control"), "--state-dir", filepath.Join(dir, "state"), "--tcp-port", port)
	<-opening
	put(t, file, a+" 127.0.0.1(insecure)\n"+b+" 127.0.0.1(insecure)\n")
	must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-guard
	close(goOn)
	c := dialServe(t, "127.0.0.1:"+port)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var err error = fs.ErrNotExist
	for err != nil && ctx.Err() == nil {
		var tree *nfsclient.FS
		if tree, err = c.Mount(ctx, b); err == nil {
			_, err = tree.ReadDir(ctx, ".")
		}
	}
	if err != nil {
		t.Errorf("what the file has said since the SIGHUP is not served: %v", err)
	}
}
