// Which connections the kernel does not pace.

package iwarp

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

func tcpAddr(t *testing.T, s string) *net.TCPAddr {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		t.Fatalf("ResolveTCPAddr: %v", err)
	}
	return a
}

func TestSameMachine(t *testing.T) {
	for _, c := range []struct {
		local, remote string
		same          bool
	}{
		{"127.0.0.1:1", "127.0.0.1:2", true},
		{"127.0.0.1:1", "127.0.0.2:2", true},
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "192.0.2.2:2", false},
		{"[::1]:1", "[::1]:2", true},
		{"[2001:db8::1]:1", "[2001:db8::1]:2", true},
		{"[2001:db8::1]:1", "[2001:db8::2]:2", false},
	} {
		if same := sameMachine(tcpAddr(t, c.local), tcpAddr(t, c.remote)); same != c.same {
			t.Errorf("%s and %s: on one machine %v, want %v", c.local, c.remote, same, c.same)
		}
	}
	if sameMachine(&net.UnixAddr{Name: "x"}, &net.UnixAddr{Name: "x"}) {
		t.Error("addresses that are not of TCP")
	}
}

// controlOf returns a socket's congestion control, after setting it to want unless that is empty.
// ok reports whether it could be set.
func controlOf(t *testing.T, sc syscall.Conn, want string) (got string, ok bool) {
	t.Helper()
	rc, err := sc.SyscallConn()
	if err != nil {
		t.Fatalf("SyscallConn: %v", err)
	}
	err = rc.Control(func(fd uintptr) {
		ok = want == "" || setControl(fd, want) == nil
		got = control(fd)
	})
	if err != nil {
		t.Fatalf("Control: %v", err)
	}
	return got, ok
}

// A farConn claims that its peer is on another machine.
type farConn struct {
	*net.TCPConn
	remote net.Addr
}

func (c farConn) RemoteAddr() net.Addr { return c.remote }

// TestConnectionsOfThisMachineAreNotPaced: neither dialed nor accepted connections on loopback are
// paced. A connection from elsewhere has the congestion control of the listening socket.
func TestConnectionsOfThisMachineAreNotPaced(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer ln.Close()
	const bbr = "bbr"
	_, paced := controlOf(t, ln.(*net.TCPListener), bbr) // not every kernel has it, or allows it to every program
	had := unpaceListener(ln)
	if want := map[bool]string{true: bbr}[paced]; had != want {
		t.Errorf("the socket that listens had %q, want %q", had, want)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := ln.Accept()
		accepted <- c
	}()
	dialed, err := dial(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer dialed.Close()
	c := <-accepted
	if c == nil {
		t.Fatal("not accepted")
	}
	defer c.Close()
	pace(c, had)
	for name, c := range map[string]net.Conn{"dialed": dialed, "accepted": c} {
		if got, _ := controlOf(t, c.(*net.TCPConn), ""); paces(got) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if !paced {
		return
	}
	far := farConn{c.(*net.TCPConn), tcpAddr(t, "192.0.2.7:1")}
	if pace(far, had); !isPacedBy(t, far, bbr) {
		t.Error("a connection from elsewhere is not paced")
	}
	if got, ok := controlOf(t, far, "cubic"); ok {
		if pace(far, had); !isPacedBy(t, far, got) {
			t.Error("a connection has lost what its route has it use")
		}
	}
}

// TestListenerKeepsWhatItCouldNotGiveBack: connections from elsewhere inherit the listener's
// congestion control. So a listener is left alone if this process is not allowed to choose its
// control, even if the process that opened it could.
func TestListenerKeepsWhatItCouldNotGiveBack(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			continue // without IPv6
		}
		defer ln.Close()
		if _, ok := controlOf(t, ln.(*net.TCPListener), "bbr"); !ok {
			return // this kernel has no congestion control that paces, or not for this process
		}
		may := mayHave
		defer func() { mayHave = may }()
		mayHave = func(domain int, name string) bool {
			if !may(domain, name) || may(domain, "none") {
				t.Errorf("%s: sockets of domain %d can have %s, or any", address, domain, name)
			}
			return false
		}
		if had := unpaceListener(ln); had != "" || !isPacedBy(t, ln.(*net.TCPListener), "bbr") {
			t.Errorf("%s: had %q, and has another now", address, had)
		}
		mayHave = may
	}
}

// A farListener accepts connections, with remote as their peer's address, and passes them to the
// test.
type farListener struct {
	*net.TCPListener
	remote   net.Addr // nil: their real address
	accepted chan *net.TCPConn
}

func (l *farListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	l.accepted <- c
	if l.remote == nil {
		return c, nil
	}
	return farConn{c, l.remote}, nil
}

// TestListenersPaceByWhereConnectionsComeFrom: connections from other machines keep the
// administrator's choice.
func TestListenersPaceByWhereConnectionsComeFrom(t *testing.T) {
	for _, remote := range []net.Addr{nil, tcpAddr(t, "192.0.2.7:1")} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		fl := &farListener{ln.(*net.TCPListener), remote, make(chan *net.TCPConn, 1)}
		want := "bbr"
		if _, ok := controlOf(t, fl, want); !ok {
			ln.Close()
			return // this kernel has no congestion control that paces, or not for this process
		}
		l := Open(rnic.DeviceConfig{}).ListenOn(fl)
		defer l.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		defer c.Close()
		if remote == nil {
			want = plainControl
		}
		a := <-fl.accepted
		for end := time.Now().Add(time.Minute); !isPacedBy(t, a, want); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				got, _ := controlOf(t, a, "")
				t.Fatalf("from %v: %q, want %q", remote, got, want)
			}
		}
	}
}

func isPacedBy(t *testing.T, c syscall.Conn, want string) bool {
	got, _ := controlOf(t, c, "")
	return got == want
}

func TestDialedElsewhereIsPaced(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false, "192.0.2.1:1": true, "[2001:db8::1]:1": true, "": true} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		_, paced := controlOf(t, ln.(*net.TCPListener), "bbr")
		rc, err := ln.(*net.TCPListener).SyscallConn()
		if err == nil {
			err = unpaceDialed("tcp", address, rc)
		}
		if err != nil {
			t.Errorf("%q: %v", address, err)
		}
		if got, _ := controlOf(t, ln.(*net.TCPListener), ""); paced && paces(got) != want {
			t.Errorf("%q: congestion control %q paces: %v, want %v", address, got, paces(got), want)
		}
		ln.Close()
	}
}
