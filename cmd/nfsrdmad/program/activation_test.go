// Under a service manager: sockets that outlive the server, and notifications.

package program

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A manager acts like systemd with nfsrdmad.socket and nfsrdmad.service.
type manager struct {
	*testing.T
	tcp, rdma net.Listener
	files     []*os.File
	notified  *net.UnixConn
	args      []string
}

// plainTCP returns a socket as systemd opens it: without MPTCP, Go's default.
func plainTCP(t *testing.T) net.Listener {
	t.Helper()
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func newManager(t *testing.T, args ...string) *manager {
	t.Helper()
	m := &manager{T: t, args: args}
	m.tcp, m.rdma = plainTCP(t), plainTCP(t)
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("net.ListenUDP: %v", err)
	}
	t.Cleanup(func() { udp.Close() })
	for _, s := range []interface{ File() (*os.File, error) }{m.tcp.(*net.TCPListener), m.rdma.(*net.TCPListener), udp} {
		f, err := s.File()
		if err != nil {
			t.Fatalf("File: %v", err)
		}
		t.Cleanup(func() { f.Close() })
		m.files = append(m.files, f)
	}
	sock := filepath.Join(t.TempDir(), "notify")
	if m.notified, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: sock, Net: "unixgram"}); err != nil {
		t.Fatalf("net.ListenUnixgram: %v", err)
	}
	t.Cleanup(func() { m.notified.Close() })
	return m
}

// start starts the server with the sockets, and returns when it is ready.
func (m *manager) start() *exec.Cmd {
	m.Helper()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" -test.run='^TestServeChild$'`, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(m.args, "\n"), "LISTEN_FDS=3", "LISTEN_FDNAMES=nfs:nfs-rdma:nfs",
		"NOTIFY_SOCKET="+m.notified.LocalAddr().String(), "WATCHDOG_USEC=200000")
	cmd.ExtraFiles = m.files
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		m.Fatalf("cmd.Start: %v", err)
	}
	m.Cleanup(func() { cmd.Process.Kill() })
	m.await("READY=1\nSTATUS=serves 1 export")
	return cmd
}

// await waits until the server has sent want.
func (m *manager) await(want string) {
	m.Helper()
	b := make([]byte, 1000)
	_ = m.notified.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		n, err := m.notified.Read(b)
		if err != nil {
			m.Fatalf("the server does not tell %q: %v", want, err)
		}
		if strings.HasPrefix(string(b[:n]), want) {
			return
		}
	}
}

// end ends the server as "systemctl stop" does.
func (m *manager) end(cmd *exec.Cmd) {
	m.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	m.await("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		m.Errorf("cmd.Wait: %v", err)
	}
}

// TestServiceManager: the server uses the passed sockets, and notifies its readiness. While it
// restarts, new and returning clients are not refused, over TCP and RDMA.
func TestServiceManager(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "exports")
	put(t, file, dir+" *(rw,insecure,no_root_squash)\n")
	m := newManager(t, "serve", "--exports", file, "--control", filepath.Join(dir, "control"), "--state-dir", filepath.Join(dir, "state"), "--rdma", "iwarp", "--rpcbind", "off", "--log-level", "error")
	server := m.start()
	m.await("WATCHDOG=1")
	m.await("WATCHDOG=1")
	_ = server.Process.Signal(syscall.SIGHUP)
	m.await("RELOADING=1\nMONOTONIC_USEC=")
	m.await("READY=1")

	var mu sync.Mutex
	var refused []error
	c, err := nfsclient.Dial(t.Context(), m.tcp.Addr().String(), nfsclient.Options{Transport: nfsclient.TCP, CallTimeout: transport.Hard,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, err)
			}
			return c, err
		}})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	tree, err := c.Mount(t.Context(), dir)
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	m.end(server)
	// While no server runs, a mount makes a call, and a new client connects.
	done := make(chan error)
	go func() {
		done <- tree.WriteFile(t.Context(), "f", []byte("x"), 0o644)
	}()
	dev := iwarp.Open(rnic.DeviceConfig{HandshakeTimeout: time.Minute})
	go func() {
		c, err := transport.DialRDMA(t.Context(), dev, m.rdma.Addr().String(), transport.ClientConfig{MaxRetries: -1})
		if err == nil {
			err = c.Call(t.Context(), &transport.Proc{Prog: 100003, Vers: 3, Name: "NULL"}, nil, nil, nil, 0)
			c.Close()
		}
		done <- err
	}()
	waiting, err := net.Dial("tcp", m.tcp.Addr().String())
	if err != nil {
		t.Fatalf("refused while the server starts again: %v", err)
	}
	defer waiting.Close()
	server = m.start()
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("a call while the server started again: %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(refused) > 0 {
		t.Errorf("connections refused: %v", refused)
	}
	m.end(server)
}

// TestPassedSockets: a socket's name or else its port decides its purpose; a socket without a
// purpose gives a one-line error.
func TestPassedSockets(t *testing.T) {
	socket := func(network string) (*os.File, string) { return boundSocket(t, network) }
	named := func(f *os.File, name string) *os.File {
		fd, err := syscall.Dup(int(f.Fd()))
		if err != nil {
			t.Fatalf("syscall.Dup: %v", err)
		}
		f.Close()
		return os.NewFile(uintptr(fd), name)
	}
	defer func(was func() []*os.File) { passedFiles = was }(passedFiles)
	pass := func(args []string, files ...*os.File) error {
		passedFiles = func() []*os.File { return files }
		_, err := run(context.Background(), append([]string{"serve", "--memory", "--rpcbind", "off"}, args...)...)
		return err
	}
	a, _ := socket("tcp")
	b, _ := socket("tcp")
	c, port := socket("tcp")
	u, _ := socket("udp")
	r, _ := socket("tcp")
	many, err := net.Listen("tcp", "127.0.0.1:0") // a socket of MPTCP, if the kernel supports it
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer many.Close()
	mptcp, err := many.(*net.TCPListener).File()
	if err != nil {
		t.Fatalf("File: %v", err)
	}
	if err := pass([]string{"--tcp-port", "7"}, mptcp); err == nil {
		t.Error("a socket for nothing is taken")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	for want, err := range map[string]error{
		"two sockets for one service":                  pass(nil, named(a, "nfs"), named(b, "nfs")),
		fmt.Sprintf("port %s, which is neither", port): pass(nil, named(c, "x.socket")),
		"only those of rpcbind":                        pass(nil, named(u, "x.socket")),
		"which --rdma does not name":                   pass([]string{"--rdma", "roce"}, named(r, "nfs-rdma")),
		"is no socket":                                 pass(nil, null),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	d, port := socket("tcp")
	e, _ := socket("udp")
	var o options
	cmd := newServe(nil)
	n, _ := fmt.Sscan(port, &o.tcpPort)
	passedFiles = func() []*os.File { return []*os.File{named(d, "nfsrdmad.socket"), named(e, "nfs")} }
	s, err := takeSockets(&o, cmd.Flags())
	if err != nil || n != 1 || o.addr != "127.0.0.1" {
		t.Errorf("takeSockets: %v, %d ports, address %q, want 1 port, 127.0.0.1", err, n, o.addr)
	}
	if s.nfs == nil || s.statd == nil || s.rdma != nil {
		t.Errorf("%+v, want sockets for nfs and statd, none for rdma", s)
	}
	s.close()
}

// boundSocket returns a socket of this network on loopback, as a file, and its port.
func boundSocket(t *testing.T, network string) (*os.File, string) {
	t.Helper()
	var s interface{ File() (*os.File, error) }
	port := ""
	if network == "tcp" {
		l := plainTCP(t)
		_, port, _ = net.SplitHostPort(l.Addr().String())
		s = l.(*net.TCPListener)
	} else {
		c, err := net.ListenPacket(network, "127.0.0.1:0")
		if err != nil {
			t.Fatalf("net.ListenPacket: %v", err)
		}
		defer c.Close()
		_, port, _ = net.SplitHostPort(c.LocalAddr().String())
		s = c.(*net.UDPConn)
	}
	f, err := s.File()
	if err != nil {
		t.Fatalf("File: %v", err)
	}
	return f, port
}
