// Calls and replies in datagrams.

package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// serveUDP serves the test program at an address; end shuts the server down.
func serveUDP(t *testing.T, addr string) (at netip.AddrPort, p *testProgram, end func()) {
	t.Helper()
	a, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatalf("ResolveUDPAddr: %v", err)
	}
	pc, err := net.ListenUDP("udp", a)
	if err != nil {
		t.Fatalf("ListenUDP: %v", err)
	}
	p = newTestProgram()
	s := NewServer(ServerConfig{}, p.program())
	done := make(chan error, 1)
	go func() { done <- s.ServeUDP(pc) }()
	var ended bool
	end = func() {
		if ended {
			return
		}
		ended = true
		p.release()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("ServeUDP returned %v", err)
		}
	}
	t.Cleanup(end)
	return pc.LocalAddr().(*net.UDPAddr).AddrPort(), p, end
}

// callBytes returns a call to the test program.
func callBytes(xid, proc uint32, args xdr.Marshaler) []byte {
	e := xdr.NewEncoder(nil)
	h := oncrpc.CallHeader{XID: xid, Prog: testProg, Vers: testVers, Proc: proc}
	h.EncodeXDR(e)
	args.EncodeXDR(e)
	return e.Bytes()
}

func dialUDP(t *testing.T, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatalf("DialUDP: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// exchange sends a call until there is a reply, and returns its results' words.
func exchange(t *testing.T, c *net.UDPConn, call []byte) []byte {
	t.Helper()
	buf := make([]byte, 64<<10)
	for range 100 {
		if _, err := c.Write(call); err != nil {
			t.Fatalf("Write: %v", err)
		}
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		for {
			n, err := c.Read(buf)
			if err != nil {
				break
			}
			if bytes.Equal(buf[:4], call[:4]) {
				return buf[:n]
			}
		}
	}
	t.Fatal("no reply")
	return nil
}

func TestUDP(t *testing.T) {
	for _, at := range []struct{ listen, call string }{
		{"127.0.0.1:0", "127.0.0.1"},
		{"0.0.0.0:0", "127.0.0.2"}, // replies must come from this address
		{"[::]:0", "127.0.0.3"},
		{"[::]:0", "::1"},
	} {
		t.Run(at.listen+" "+at.call, func(t *testing.T) {
			to, _, _ := serveUDP(t, at.listen)
			c := dialUDP(t, netip.AddrPortFrom(netip.MustParseAddr(at.call), to.Port()))
			reply := exchange(t, c, callBytes(7, tAdd, words{40, 2}))
			if len(reply) != 28 || binary.BigEndian.Uint32(reply[24:]) != 42 {
				t.Errorf("sum: %x", reply)
			}
			long := bytes.Repeat([]byte("datagram"), 700)
			if reply := exchange(t, c, callBytes(8, tEcho, &text{long})); !bytes.Equal(reply[28:], long) {
				t.Errorf("%d bytes came back", len(reply)-28)
			}
			if reply := exchange(t, c, callBytes(9, tNone, words{})); binary.BigEndian.Uint32(reply[20:]) != uint32(oncrpc.ProcUnavail) {
				t.Errorf("a procedure that is not served: %x", reply)
			}
			if reply := exchange(t, c, callBytes(10, tRead, words{1 << 20})); binary.BigEndian.Uint32(reply[20:]) != uint32(oncrpc.SystemErr) {
				t.Errorf("more than a datagram takes: %x", reply)
			}
		})
	}
}

// A non-idempotent call is executed once for a duplicated datagram.
func TestUDPDuplicate(t *testing.T) {
	to, p, _ := serveUDP(t, "127.0.0.1:0")
	c := dialUDP(t, to)
	call := callBytes(11, tCount, words{0})
	first := bytes.Clone(exchange(t, c, call))
	if again := exchange(t, c, call); !bytes.Equal(first, again) || p.runs.Load() != 1 {
		t.Errorf("%x, then %x, %d runs", first, again, p.runs.Load())
	}
}

// After any garbage the next call is served.
func TestUDPGarbage(t *testing.T) {
	to, _, _ := serveUDP(t, "127.0.0.1:0")
	c := dialUDP(t, to)
	call := callBytes(12, tEcho, &text{[]byte("whole")})
	for n := range call {
		if _, err := c.Write(call[:n]); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	if _, err := c.Write(make([]byte, 9000)); err != nil {
		t.Fatalf("Write: %v", err)
	}
	binary.BigEndian.PutUint32(call, 13)
	if reply := exchange(t, c, call); string(reply[28:33]) != "whole" {
		t.Errorf("%x", reply)
	}
}

// Calls beyond the limit are dropped, and calls in progress get their replies.
func TestUDPIsBounded(t *testing.T) {
	to, p, _ := serveUDP(t, "127.0.0.1:0")
	c := dialUDP(t, to)
	for i := range uint32(3 * udpCalls) {
		if _, err := c.Write(callBytes(100+i, tHold, words{})); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	for range ownWorkers {
		<-p.entered
	}
	if _, err := c.Write(callBytes(19, tAdd, words{1, 1})); err != nil {
		t.Fatalf("Write: %v", err)
	}
	c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := c.Read(make([]byte, 100)); err == nil {
		t.Errorf("a reply of %d bytes beyond the bound", n)
	}
	p.release()
	if reply := exchange(t, c, callBytes(20, tAdd, words{1, 2})); binary.BigEndian.Uint32(reply[24:]) != 3 {
		t.Errorf("%x", reply)
	}
}

// A reply larger than its call goes only to this machine, whatever the datagram's source.
func TestUDPIsNoAmplifier(t *testing.T) {
	plain, factor3 := UDPConfig{}, UDPConfig{Amplify: 3}
	plain.setDefaults()
	factor3.setDefaults()
	for _, c := range []struct {
		cfg        *UDPConfig
		remote     string
		call, size int
		want       bool
	}{
		{&plain, "192.0.2.1:700", 40, 40, true},
		{&plain, "192.0.2.1:700", 40, 41, false},
		{&factor3, "192.0.2.1:700", 40, 120, true},
		{&factor3, "192.0.2.1:700", 40, 121, false},
		{&plain, "[2001:db8::1]:700", 56, 57, false},
		{&plain, "127.0.0.1:700", 40, 400, true},
		{&plain, "[::1]:700", 40, 400, true},
		{&plain, "127.0.0.1:700", 40, plain.MaxMessage + 1, false},
	} {
		f := udpFrom{remote: netip.MustParseAddrPort(c.remote), size: c.call}
		if got := f.mayHave(c.size, c.cfg); got != c.want {
			t.Errorf("%d bytes to %s for a call of %d: %v, want %v", c.size, c.remote, c.call, got, c.want)
		}
	}
}

// acceptStat returns the accept_stat of a reply with a verifier of AUTH_NONE.
func acceptStat(reply []byte) oncrpc.AcceptStat {
	return oncrpc.AcceptStat(binary.BigEndian.Uint32(reply[20:]))
}

// A call or a reply beyond MaxMessage is answered with an error, and the largest ones pass.
func TestUDPMessageSizes(t *testing.T) {
	to, _, _ := serveUDP(t, "127.0.0.1:0")
	c := dialUDP(t, to)
	const most = 8800
	header := len(callBytes(1, tEcho, &text{}))
	for i, size := range []struct {
		call int
		want oncrpc.AcceptStat
	}{{most, oncrpc.Success}, {most + 4, oncrpc.GarbageArgs}, {60000, oncrpc.GarbageArgs}} {
		reply := exchange(t, c, callBytes(uint32(i+1), tEcho, &text{make([]byte, size.call-header)}))
		if acceptStat(reply) != size.want {
			t.Errorf("a call of %d bytes: %v, want %v", size.call, acceptStat(reply), size.want)
		}
	}
	for i, size := range []struct {
		item int
		want oncrpc.AcceptStat
	}{{most - 32, oncrpc.Success}, {most - 31, oncrpc.SystemErr}, {most, oncrpc.SystemErr}} {
		reply := exchange(t, c, callBytes(uint32(i+10), tRead, words{uint32(size.item)}))
		if acceptStat(reply) != size.want {
			t.Errorf("an item of %d bytes: %v, want %v", size.item, acceptStat(reply), size.want)
		}
	}
}

// Shutdown waits for a call over UDP, and its reply leaves.
func TestUDPShutdownDrains(t *testing.T) {
	p := newTestProgram()
	s := NewServer(ServerConfig{}, p.program())
	pc, err := ListenUDP("127.0.0.1:0")
	if err != nil {
		t.Fatalf("ListenUDP: %v", err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeUDP(pc) }()
	c := dialUDP(t, pc.LocalAddr().(*net.UDPAddr).AddrPort())
	if _, err := c.Write(callBytes(5, tHold, words{})); err != nil {
		t.Fatalf("Write: %v", err)
	}
	<-p.entered
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	for !closing(s) {
		time.Sleep(time.Millisecond)
	}
	p.release()
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-served; !errors.Is(err, ErrClosed) {
		t.Errorf("ServeUDP: %v, want %v", err, ErrClosed)
	}
	buf := make([]byte, 100)
	if n, err := c.Read(buf); err != nil || n != 28 {
		t.Errorf("reply of %d bytes, %v; want 28", n, err)
	}
	late, err := ListenUDP("127.0.0.1:0")
	if err != nil {
		t.Fatalf("ListenUDP: %v", err)
	}
	if err := s.ServeUDP(late); !errors.Is(err, ErrClosed) {
		t.Errorf("ServeUDP after Shutdown: %v, want %v", err, ErrClosed)
	}
}

func closing(s *Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}
