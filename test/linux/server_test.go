// Our server as a process: started for a test, watched, stopped, killed.

package linux

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/wire"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// server is nfsrdmad, exporting dir as /export to a guest.
type server struct {
	t         *testing.T
	g         *guest.Guest
	dir       string
	rdma, tcp int // rdma is a tap's port: all its traffic is checked
	behind    int // the port behind the tap
	// a directory for its state between starts, shared with no other server, such as the other
	// kernel's
	state   string
	control string // the socket of --control, where args name one
	args    []string
	want    wire.Want
	roce    bool // by RoCE and not by iWARP; the tap is then the device itself

	cmd   *exec.Cmd
	gone  chan error
	log   lockedBuffer
	ended bool
}

// serve starts our server over a fresh directory and stops it when the test ends; it must
// then end by itself, with code zero.
func serve(t *testing.T, g *guest.Guest, dir string, args ...string) *server {
	t.Helper()
	s := &server{t: t, g: g, dir: dir, behind: machine.Port(t), tcp: machine.Port(t), args: args}
	s.want = wire.Want{ServerOurs: true, CRC: !slices.Contains(args, "auto")}
	s.start()
	s.rdma = watched(t, g.Listen, s.address(s.behind), &s.want)
	t.Cleanup(s.stop)
	return s
}

// serveRoCE starts our server with RoCE in place of iWARP, like serve. The caller captures the
// traffic.
func serveRoCE(t *testing.T, g *guest.Guest, dir string) *server {
	t.Helper()
	const service = 20049 // the connection manager's port, on the guest's own subnet
	s := &server{t: t, g: g, dir: dir, behind: service, rdma: service, tcp: machine.Port(t), args: []string{"--rdma", "roce"}, roce: true}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	if s.state == "" {
		s.state = s.t.TempDir()
	}
	// The suite checks what root does in a guest: squash_test.go takes this flag back.
	args := append([]string{"serve", s.dir + "=/export", "--addr", s.g.Listen, "--no-root-squash", "--state-dir", s.state,
		"--rdma-port", fmt.Sprint(s.behind), "--tcp-port", fmt.Sprint(s.tcp)}, s.args...)
	cmd := exec.Command(program(s.t, "cmd/nfsrdmad"), args...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	gone, started := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the parent-death signal is tied to this thread
		err := cmd.Start()
		started <- err
		if err == nil {
			gone <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatalf("started: %v", err)
	}
	s.cmd, s.gone, s.ended = cmd, gone, false
	s.await(s.tcp)
	if !s.roce {
		s.await(s.behind)
	}
}

// await waits until the server answers on a port.
func (s *server) await(port int) {
	s.t.Helper()
	for deadline := time.Now().Add(commandTime); ; {
		c, err := net.Dial("tcp4", s.address(port))
		if err == nil {
			c.Close()
			return
		}
		select {
		case err := <-s.gone:
			s.ended = true
			s.t.Fatalf("nfsrdmad ended at once: %v\n%s", err, s.log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("nfsrdmad does not answer on port %d\n%s", port, s.log.String())
		}
	}
}

// kill ends the server without a chance to tidy up.
func (s *server) kill() {
	s.want.Cut = true
	s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.gone
	s.ended = true
}

func (s *server) stop() {
	if s.ended {
		return
	}
	s.ended = true
	s.cmd.Process.Signal(os.Interrupt)
	select {
	case err := <-s.gone:
		if err != nil {
			s.t.Errorf("nfsrdmad: %v", err)
		}
	case <-time.After(commandTime):
		s.cmd.Process.Signal(syscall.SIGQUIT) // shows its goroutines
		<-s.gone
		s.t.Errorf("nfsrdmad did not end within %v of an interrupt", commandTime)
	}
	if s.t.Failed() {
		s.t.Logf("nfsrdmad said:\n%s", s.log.String())
	}
}

// mount returns the command by which the guest mounts this server at /mnt.
func (s *server) mount(proto, options string) string {
	port := s.rdma
	if proto == "tcp" {
		port = s.tcp
	}
	return mountCommand(proto, s.g.Host, port, s.tcp, options)
}

// tapping puts a further tap before the RDMA port, which mountAt uses.
func (s *server) tapping(t *testing.T) (*tap.Tap, func(wire.Want)) {
	t.Helper()
	return tapping(t, s.g.Listen, s.address(s.behind))
}

func (s *server) mountAt(port int) string { return mountCommand("rdma", s.g.Host, port, s.tcp, "") }

// address returns the address for a server port on this machine.
func (s *server) address(port int) string { return net.JoinHostPort(s.g.Listen, fmt.Sprint(port)) }

func mountCommand(proto, host string, port, mountPort int, options string) string {
	return fmt.Sprintf("mount_%s %s:/export /mnt %d %d %s || exit 1", proto, host, port, mountPort, options)
}

// lockedBuffer takes the output of two streams at once.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
