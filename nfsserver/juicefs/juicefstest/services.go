// Real services for tests, each with its own port and directory. They end with the test.

// Package juicefstest starts the services of volumes for tests: Redis and PostgreSQL from Debian's
// packages, and an S3 server.
package juicefstest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// startWait is how long a service may take to listen on a busy machine.
const startWait = 5 * time.Minute

// A Process is a running service that can be stopped and restarted.
type Process struct {
	Addr string

	t    testing.TB
	path string
	args []string
	uid  uint32
	// ready reports whether the service serves, beyond listening; nil: listening suffices.
	ready func() bool

	mu  sync.Mutex // guards all below
	cmd *exec.Cmd
	log *bytes.Buffer // of the last run; read it after its end
}

// run starts a program that will listen at port.
func run(t testing.TB, port int, uid uint32, ready func() bool, path string, args ...string) *Process {
	t.Helper()
	p := &Process{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), t: t, path: path, args: args, uid: uid, ready: ready}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the service and returns once it serves.
func (p *Process) Start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.log = exec.Command(p.path, p.args...), new(bytes.Buffer)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.uid != 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.uid, Gid: p.uid}
	}
	// The signal is sent when the thread that started the program ends. No thread is locked to a
	// goroutine, so it lives as long as the test's process.
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	for {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", p.Addr)
		if err == nil {
			c.Close()
			if p.ready == nil || p.ready() {
				return
			}
		}
		if ctx.Err() != nil {
			p.t.Fatalf("%s does not serve: %v", p.path, err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// Kill ends the service like a machine failure.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// end sends the service a signal, if it runs, and returns when its last process has ended: all have
// its log open.
func (p *Process) end(by syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(by)
	_ = p.cmd.Wait()
	if p.t.Failed() {
		p.t.Logf("%s said:\n%.4000s", p.path, p.log)
	}
	p.cmd = nil
}

// leastRoom is the most space that a test's services need.
const leastRoom = 1 << 30

// dir makes a directory owned by a user: in memory, if there is room.
func dir(t testing.TB, uid uint32) string {
	t.Helper()
	in := "/dev/shm"
	var st syscall.Statfs_t
	if err := syscall.Statfs(in, &st); err != nil || st.Bavail*uint64(st.Bsize) < leastRoom {
		in = "" // where any user can search the parent directories, unlike t.TempDir's
	}
	d, err := os.MkdirTemp(in, "juicefstest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	if uid != 0 {
		if err := os.Chown(d, int(uid), int(uid)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// program returns the path of a package's program.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		machine.Skip(t, "needs "+name)
	}
	return path
}
