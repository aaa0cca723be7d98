// A mount from start to end: written data arrives, and nothing is left, whichever way the mount
// ends.

package mounter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// serveMount runs the process of a mount with the arguments SPEC DIR OPTIONS. After an error it
// returns 32, as the command does.
func serveMount(args []string) int {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "nfsrdma: %v\n", err)
		return 32
	}
	o, err := mountopt.Parse([]string{args[2]}, false)
	if err != nil {
		return fail(err)
	}
	r := &Request{Spec: args[0], Dir: args[1], Options: o}
	if r.Source, err = o.Source(r.Spec); err != nil {
		return fail(err)
	}
	log, err := NewLog(os.Stderr, "", false)
	if err != nil {
		return fail(err)
	}
	ctx, stop := cli.UntilSignal(context.Background())
	defer stop()
	s := &session.Session{Stderr: os.Stderr, Flags: requestFlags}
	if err := r.Serve(ctx, s, log, func() { fmt.Println("ready") }); err != nil {
		return fail(err)
	}
	return 0
}

// A process is a child that serves a mount.
type process struct {
	cmd    *exec.Cmd
	stdout io.ReadCloser
	stderr bytes.Buffer // complete once the process has ended
}

// startMount starts the process of a mount and returns when it has reported, or ended.
func startMount(t *testing.T, spec, dir, options string) (p *process, ready bool) {
	t.Helper()
	self, err := os.Executable()
	must.Succeed(t, err)
	p = &process{cmd: exec.Command(self, "serve", spec, dir, options)}
	p.cmd.Env = append(os.Environ(), child.Env)
	p.cmd.Stderr = &p.stderr
	p.stdout, err = p.cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, p.cmd.Start())
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	line := make([]byte, len("ready\n"))
	_, err = io.ReadFull(p.stdout, line)
	return p, err == nil && string(line) == "ready\n"
}

// status waits for the process to end, and returns its exit status.
func (p *process) status(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("cmd.Wait: %v", err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// newMount mounts an export in memory. onRetry sees the same files without the mount.
func newMount(t *testing.T, options string) (p *process, dir string, onRetry *nfsclient.FS) {
	t.Helper()
	syscall.Close(openFUSE(t)) // or the test is skipped
	addr := serveOn(t, "127.0.0.1:0")
	var err error
	onRetry, err = requestOf(t, "tcp", target(nfsclient.TCP, addr)).connect(t.Context(), newSession(t), nil, new(told).add, nil)
	must.Succeed(t, err)
	t.Cleanup(func() { onRetry.Client().Close() })
	dir, err = mountctl.Resolve(t.TempDir())
	must.Succeed(t, err)
	p, ready := startMount(t, "nfs://"+addr.String()+"/mem", dir, options)
	if !ready {
		t.Fatalf("status %d: %s", p.status(t), &p.stderr)
	}
	return p, dir, onRetry
}

// When umount returns, written data is on the server, and the process ends with status 0. Until
// then, it answers requests for figures.
func TestMountFromBeginningToEnd(t *testing.T) {
	p, dir, onRetry := newMount(t, "tcp")
	m, err := mountctl.Find(dir)
	must.Succeed(t, err)
	if !strings.HasSuffix(m.Source, ":/mem") || m.Type != mountctl.FSType {
		t.Errorf("%+v", m)
	}
	c, err := mountctl.Dial(m)
	must.Succeed(t, err)
	var figures map[string]json.RawMessage
	if err := c.Stats(&figures); err != nil || len(figures) == 0 {
		t.Errorf("figures %v, %v", figures, err)
	}
	c.Close()
	if _, err := CheckPoint(dir); err == nil || !strings.Contains(err.Error(), "is mounted there already") {
		t.Errorf("mounting twice: %v", err)
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), content, 0o644))
	var notes bytes.Buffer
	must.Succeed(t, Unmount(t.Context(), dir, false, &notes))
	if got, err := onRetry.ReadFile(t.Context(), "f"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes on the server, %v", len(got), err)
	}
	if s := p.status(t); s != 0 || mounted(t, dir) || p.stderr.Len() > 0 || notes.Len() > 0 {
		t.Errorf("status %d: %q, %q", s, &p.stderr, &notes)
	}
}

// SIGTERM and the end of the terminal unmount: nothing is left of the mount, and the status is 0.
func TestSignalsEndTheMount(t *testing.T) {
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	machine.HeedSignals(signals...)
	for _, sig := range signals {
		p, dir, onRetry := newMount(t, "tcp")
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644))
		must.Succeed(t, p.cmd.Process.Signal(sig))
		if s := p.status(t); s != 0 || mounted(t, dir) || p.stderr.Len() > 0 {
			t.Errorf("%v: status %d, %s", sig, s, &p.stderr)
		}
		if got, err := onRetry.ReadFile(t.Context(), "f"); err != nil || string(got) != "x" {
			t.Errorf("%v: %q, %v", sig, got, err)
		}
	}
}

// A mount that is in use when the signal arrives is detached. Written data is on the server, and
// one line reports the detached mount.
func TestSignalWhileInUse(t *testing.T) {
	p, dir, onRetry := newMount(t, "tcp")
	f, err := os.Create(filepath.Join(dir, "f"))
	must.Succeed(t, err)
	defer f.Close()
	_, err = f.WriteString("kept")
	must.Succeed(t, err)
	must.Succeed(t, p.cmd.Process.Signal(syscall.SIGTERM))
	if s := p.status(t); s != 0 || mounted(t, dir) {
		t.Errorf("status %d", s)
	}
	if line := p.stderr.String(); !strings.HasPrefix(line, "nfsrdma: "+dir+": detached while it was in use") || strings.Count(line, "\n") != 1 {
		t.Errorf("%q", line)
	}
	if got, err := onRetry.ReadFile(t.Context(), "f"); err != nil || string(got) != "kept" {
		t.Errorf("on the server: %q, %v", got, err)
	}
	if _, err := f.WriteString("more"); err == nil {
		t.Error("a write to the mount that was given up was accepted")
	}
}

// The kernel enforces the options of a mount.
func TestReadOnlyMount(t *testing.T) {
	p, dir, _ := newMount(t, "tcp,ro,noexec")
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing: %v", err)
	}
	m, err := mountctl.Find(dir)
	if flags := "," + m.Flags + ","; err != nil || !strings.Contains(flags, ",ro,") || !strings.Contains(flags, ",noexec,") || strings.Contains(flags, ",nosuid,") {
		t.Errorf("%q, %v", m.Flags, err)
	}
	must.Succeed(t, Unmount(t.Context(), dir, false, io.Discard))
	if s := p.status(t); s != 0 {
		t.Errorf("status %d", s)
	}
}

// A mount that fails is not reported as ready, gives one line and status 32, and leaves the
// directory unchanged.
func TestMountThatCannotBeMade(t *testing.T) {
	syscall.Close(openFUSE(t)) // or the test is skipped
	dir, err := mountctl.Resolve(t.TempDir())
	must.Succeed(t, err)
	there := "nfs://" + serveOn(t, "127.0.0.1:0").String()
	for spec, word := range map[string]string{"nfs://" + closedPort(t).String() + "/mem": "connection refused", there + "/none": "no such export"} {
		p, ready := startMount(t, spec, dir, "tcp")
		s := p.status(t)
		if ready || s != 32 {
			t.Errorf("%s: ready %v, status %d, want false, 32", spec, ready, s)
		}
		line := p.stderr.String()
		if !strings.HasPrefix(line, "nfsrdma: "+spec+": ") || !strings.Contains(line, word) || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %q, want one line with %q", spec, line, word)
		}
	}
	if mounted(t, dir) {
		t.Error("something is mounted")
	}
}

// With bg, Background returns before the server exists. A signal ends the mount, and all lines are
// only in the log.
func TestBackgroundMountWaits(t *testing.T) {
	syscall.Close(openFUSE(t)) // or the test is skipped
	dir, err := mountctl.Resolve(t.TempDir())
	must.Succeed(t, err)
	spec := "nfs://" + closedPort(t).String() + "/mem"
	p, ready := startMount(t, spec, dir, "tcp,bg")
	if !ready || mounted(t, dir) {
		t.Fatalf("ready %v, mounted %v", ready, mounted(t, dir))
	}
	must.Succeed(t, p.cmd.Process.Signal(syscall.SIGTERM))
	s := p.status(t)
	if log := p.stderr.String(); s != 32 || !strings.HasPrefix(log, "nfsrdma: "+spec+": connection refused") || !strings.Contains(log, "; trying again in the background\n") {
		t.Errorf("status %d, %q", s, log)
	}
}
