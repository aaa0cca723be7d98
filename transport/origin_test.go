// Repeated calls over real kernel connections.

package transport

import (
	"encoding/binary"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"golang.org/x/sys/unix"
)

// dialFrom connects from a port; 0: any.
func dialFrom(t *testing.T, addr string, port int) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Control: func(_, _ string, c syscall.RawConn) (err error) {
		return c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func sendRaw(t *testing.T, c net.Conn, m chunks.Message) {
	t.Helper()
	b := binary.BigEndian.AppendUint32(nil, lastFragment|uint32(len(m.Stream)))
	if _, err := c.Write(append(b, m.Stream...)); err != nil {
		t.Fatalf("Write: %v", err)
	}
}

// resultRaw reads a reply, and returns its results' first word.
func resultRaw(t *testing.T, c net.Conn) uint32 {
	t.Helper()
	var mark [markLen]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		t.Fatalf("ReadFull: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&^lastFragment)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("ReadFull: %v", err)
	}
	return binary.BigEndian.Uint32(b[24:])
}

// TestCallsOfSeveralConnections: equal bytes over another connection are the same call if the
// reply over the first was possibly lost. They are another call if the client has the reply. This
// distinguishes two programs on a machine, or two machines behind one address.
func TestCallsOfSeveralConnections(t *testing.T) {
	reset := func(t *testing.T, c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }
	for _, row := range []struct {
		name     string
		answered bool // the client reads the reply before its connection ends
		end      func(t *testing.T, c *net.TCPConn)
		samePort bool
		want     uint32 // the second result
	}{
		{"both live", true, func(*testing.T, *net.TCPConn) {}, false, 2},
		{"closed", true, func(_ *testing.T, c *net.TCPConn) { c.Close() }, false, 2},
		{"closed with the reply unread", false, func(_ *testing.T, c *net.TCPConn) { c.Close() }, false, 1},
		{"reset", true, reset, false, 1},
		{"reset, and from the same port", true, reset, true, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, addr := networks[0].start(t, ServerConfig{})
			one := dialFrom(t, addr, 0)
			sendRaw(t, one, callOf(7, tCount, 1))
			if row.answered {
				if got := resultRaw(t, one); got != 1 {
					t.Fatalf("the first result is %d, want 1", got)
				}
			} else {
				var b [1]byte // the reply has arrived, and stays unread
				if err := peek(one, b[:]); err != nil {
					t.Fatalf("peek: %v", err)
				}
			}
			row.end(t, one)
			port := 0
			if row.samePort {
				port = one.LocalAddr().(*net.TCPAddr).Port
			}
			two := dialFrom(t, addr, port)
			sendRaw(t, two, callOf(7, tCount, 1))
			if got := resultRaw(t, two); got != row.want {
				t.Errorf("the second result is %d, want %d", got, row.want)
			}
		})
	}
}

// TestClosedWhileItsCallRuns: a client that closes its connection before the reply may repeat the
// call.
func TestClosedWhileItsCallRuns(t *testing.T) {
	p, s, addr := networks[0].start(t, ServerConfig{})
	one, two := dialFrom(t, addr, 0), dialFrom(t, addr, 0)
	sendRaw(t, one, callOf(7, tHold, 1))
	<-p.entered
	if err := one.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite: %v", err)
	}
	sendRaw(t, two, callOf(7, tHold, 1))
	for s.Figures().Repeats.Joined == 0 && p.runs.Load() == 1 {
		time.Sleep(time.Millisecond)
	}
	p.release()
	if got := resultRaw(t, two); got != 1 {
		t.Errorf("the call ran %d times, want 1", got)
	}
}

// TestClosedBeforeReply: if a client closes its connection before it has read earlier bytes, it may
// repeat the call, although the kernel has the reply.
func TestClosedBeforeReply(t *testing.T) {
	p, _, addr := networks[0].start(t, ServerConfig{})
	one, two := dialFrom(t, addr, 0), dialFrom(t, addr, 0)
	if err := one.SetReadBuffer(4096); err != nil {
		t.Fatalf("SetReadBuffer: %v", err)
	}
	large := callOf(6, tRead, 256<<10)
	sendRaw(t, one, large)
	sendRaw(t, one, callOf(7, tCount, 1))
	for p.runs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := one.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite: %v", err)
	}
	sendRaw(t, two, callOf(7, tCount, 1))
	if got := resultRaw(t, two); got != 1 {
		t.Errorf("the second result is %d, want 1", got)
	}
}

// peek waits for input and leaves it unread.
func peek(c *net.TCPConn, b []byte) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var got error
	err = raw.Read(func(fd uintptr) bool {
		_, _, got = unix.Recvfrom(int(fd), b, unix.MSG_PEEK)
		return got != unix.EAGAIN
	})
	if err != nil {
		return err
	}
	return got
}

// TestSamePortsAreOneClient: a call from the same ports as a connection that looks live, because
// its end was lost, repeats that connection's call.
func TestSamePortsAreOneClient(t *testing.T) {
	s, p := newTestServer(t)
	from := func(local, remote int) *tape {
		k := newTape("")
		k.peer.init(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: remote})
		k.peer.origin.local = addrPortOf(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: local})
		return k
	}
	for _, row := range []struct {
		local, remote int
		runs          uint32
	}{{2049, 700, 1}, {2049, 700, 1}, {2049, 701, 2}, {20049, 700, 3}} {
		from(row.local, row.remote).do(s, callOf(7, tCount, 1))
		if n := p.runs.Load(); n != row.runs {
			t.Errorf("from port %d to %d: ran %d times, want %d", row.remote, row.local, n, row.runs)
		}
	}
}

// TestFatesOfAConnection: a call counts as a copy of another connection's call if the client has
// lost that connection, or possibly has.
func TestFatesOfAConnection(t *testing.T) {
	for f, again := range map[fate]uint32{fateLive: 2, fateDoubtful: 1, fateHalf: 1, fateClosed: 2, fateCut: 1} {
		s, p := newTestServer(t)
		one := newTape("10.0.0.1")
		one.peer.origin.watch(func() fate { return f })
		one.do(s, callOf(7, tCount, 1))
		newTape("10.0.0.1").do(s, callOf(7, tCount, 1))
		if n := p.runs.Load(); n != again {
			t.Errorf("fate %d: ran %d times, want %d", f, n, again)
		}
		newTape("10.0.0.1").do(s, callOf(7, tCount, 1)) // the second connection is live
		if n := p.runs.Load(); n != again+1 {
			t.Errorf("fate %d: ran %d times with that of a third connection, want %d", f, n, again+1)
		}
	}
}

// TestRepliesOfClosedConnections: one reply is stored for programs that run one after the other
// and start with the same XID.
func TestRepliesOfClosedConnections(t *testing.T) {
	s, p := newTestServer(t)
	for range 5 {
		k := newTape("10.0.0.1")
		k.do(s, callOf(7, tCount, 1))
		k.peer.origin.ended(fateClosed)
	}
	if n := p.runs.Load(); n != 5 {
		t.Errorf("ran %d times, want 5", n)
	}
	if n := s.Figures().Repeats.Replies; n != 1 {
		t.Errorf("%d replies are kept, want 1", n)
	}
}

// TestManyClientsOfOneXID: each of many live connections gets its own reply to the same bytes,
// even during the first call.
func TestManyClientsOfOneXID(t *testing.T) {
	for _, proc := range []uint32{tHold, tOver} {
		s, p := newTestServer(t)
		var all []*tape
		for range 40 {
			k := newTape("10.0.0.1")
			all = append(all, k)
			k.start(s, callOf(7, proc, 0))
		}
		p.release()
		for i, k := range all {
			if got := <-k.ends; got.how != "reply" {
				t.Errorf("procedure %d: the call of connection %d ended by %s, want reply", proc, i, got.how)
			}
		}
		if n := p.runs.Load(); n != 40 {
			t.Errorf("procedure %d: ran %d times, want 40", proc, n)
		}
	}
}

// TestClosedAtOnce: a client that closes its connection right after the reply counts as having
// it, even if the server's writer has not run again.
func TestClosedAtOnce(t *testing.T) {
	_, _, addr := networks[0].start(t, ServerConfig{})
	for want := uint32(1); want <= 300; want++ {
		c := dialFrom(t, addr, 0)
		sendRaw(t, c, callOf(7, tCount, 1))
		if got := resultRaw(t, c); got != want {
			t.Fatalf("the result is %d, want %d: the server took the call for a repeated one", got, want)
		}
		c.Close()
	}
}

// TestUnreadCallOfAClosedConnection: the client has closed its direction and repeated the call
// over another connection. If the server then reads the first copy, it does not run, and the
// first connection ends.
func TestUnreadCallOfAClosedConnection(t *testing.T) {
	p, _, addr := networks[0].start(t, ServerConfig{Workers: 1})
	one, two := dialFrom(t, addr, 0), dialFrom(t, addr, 0)
	for xid := range uint32(2) { // as many as the server permits concurrently
		sendRaw(t, one, callOf(1+xid, tHold, 1))
	}
	<-p.entered
	sendRaw(t, one, callOf(7, tCount, 1))
	if err := one.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite: %v", err)
	}
	sendRaw(t, two, callOf(7, tCount, 1))
	if got := resultRaw(t, two); got != 2 {
		t.Fatalf("the copy is number %d of the calls, want 2", got)
	}
	p.release()
	if _, err := io.Copy(io.Discard, one); err != nil {
		t.Errorf("the first connection ended with %v, want in order", err)
	}
	if n := p.runs.Load(); n != 3 {
		t.Errorf("%d calls ran, want 3", n)
	}
}

// TestCallsReadAfterTheirCopies: a call is executed beside another connection's copy only if its
// connection is live, or possibly is.
func TestCallsReadAfterTheirCopies(t *testing.T) {
	for f, want := range map[fate]string{fateLive: "reply", fateDoubtful: "reply", fateHalf: "drop", fateCut: "drop"} {
		for _, proc := range []uint32{tHold, tOver} {
			s, p := newTestServer(t)
			one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
			one.peer.origin.watch(func() fate { return f })
			two.start(s, callOf(7, proc, 1))
			<-p.entered
			one.start(s, callOf(7, proc, 1))
			p.release()
			if got := <-one.ends; got.how != want {
				t.Errorf("fate %d, procedure %d: the call ended by %s, want %s", f, proc, got.how, want)
			}
			if got := <-two.ends; got.how != "reply" {
				t.Errorf("fate %d, procedure %d: the copy ended by %s, want reply", f, proc, got.how)
			}
		}
	}
}

// TestFatesAreCheckedOnce: a call checks each other connection with the same call once, and a
// repetition over the same connection none: otherwise a host with many connections and one XID
// would delay all others.
func TestFatesAreCheckedOnce(t *testing.T) {
	s, _ := newTestServer(t)
	asked := 0
	var all []*tape
	for i := range 20 {
		k := newTape("10.0.0.1")
		k.peer.origin.watch(func() fate { asked++; return fateLive })
		asked = 0
		k.do(s, callOf(7, tCount, 1))
		want := i
		if i > 0 {
			want++ // the call's own connection, too: its client may have left
		}
		if asked != want {
			t.Errorf("call %d asked about %d connections, want %d", i, asked, want)
		}
		all = append(all, k)
	}
	asked = 0
	for _, k := range all {
		k.do(s, callOf(7, tCount, 1))
	}
	if asked != 0 {
		t.Errorf("repetitions asked about %d connections, want 0", asked)
	}
}
