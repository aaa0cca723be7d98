// Broadcast calls on simulated time, and to several servers on loopback addresses.

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A simulatedSocket answers each datagram by script, and notes when it was sent.
type simulatedSocket struct {
	start  time.Time
	script func(n int, call []byte) []udpAnswer
	sendTo error // of each write

	mu       sync.Mutex
	sent     []time.Duration
	queue    []udpAnswer
	deadline time.Time
	changed  chan struct{} // closed at a new deadline
}

type udpAnswer struct {
	from string
	b    []byte
}

func (s *simulatedSocket) WriteToUDPAddrPort(b []byte, _ netip.AddrPort) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, time.Since(s.start))
	s.queue = append(s.queue, s.script(len(s.sent), b)...)
	return len(b), s.sendTo
}

func (s *simulatedSocket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
	return nil
}

func (s *simulatedSocket) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			a := s.queue[0]
			s.queue = s.queue[1:]
			s.mu.Unlock()
			return copy(b, a.b), netip.MustParseAddrPort(a.from), nil
		}
		left, changed := time.Until(s.deadline), s.changed
		s.mu.Unlock()
		if left <= 0 {
			return 0, netip.AddrPort{}, os.ErrDeadlineExceeded
		}
		select {
		case <-time.After(left):
		case <-changed:
		}
	}
}

var oneAddress = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.255:111")}

// A broadcast is repeated with growing waits until ctx ends, takes one reply of each server, and
// ignores errors and garbage.
func TestBroadcastCollects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := func(call []byte) []byte {
			e := xdr.NewEncoder(nil)
			(&oncrpc.ReplyHeader{XID: binary.BigEndian.Uint32(call), Accept: oncrpc.ProgUnavail}).EncodeXDR(e)
			return e.Bytes()
		}
		s := &simulatedSocket{start: time.Now(), script: func(n int, call []byte) []udpAnswer {
			other := replyTo(call, 9)
			other[0]++ // XID
			return []udpAnswer{
				{"192.0.2.1:700", replyTo(call, 1)}, {"192.0.2.2:700", refused(call)}, {"192.0.2.3:700", call},
				{"192.0.2.4:700", replyTo(call)}, {"192.0.2.5:700", other}, {"192.0.2.6:700", nil},
				{"[::ffff:192.0.2.1]:700", replyTo(call, 2)}, {"192.0.2.1:701", replyTo(call, uint32(10*n))},
			}
		}}
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		res := words{0}
		var got []string
		var values []uint32
		err := (&Broadcast{To: oneAddress}).call(ctx, s, testProc(tAdd), words{1, 2}, res, func(from netip.AddrPort) bool {
			got, values = append(got, from.String()), append(values, res[0])
			return true
		})
		must.Succeed(t, err)
		if want := []string{"192.0.2.1:700", "192.0.2.1:701"}; !slices.Equal(got, want) || !slices.Equal(values, []uint32{1, 10}) {
			t.Errorf("replies of %q: %d, want %q: 1 and 10", got, values, want)
		}
		if want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}; !slices.Equal(s.sent, want) {
			t.Errorf("sent at %v, want %v", s.sent, want)
		}
		if took := time.Since(s.start); took != 10*time.Second {
			t.Errorf("the broadcast took %v, want 10s", took)
		}
	})
}

// The number of servers is bounded, and each can end the broadcast.
func TestBroadcastEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulatedSocket{start: time.Now(), script: func(n int, call []byte) (all []udpAnswer) {
			for port := range uint16(maxAnswers + 100) {
				from := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)
				all = append(all, udpAnswer{from.String(), replyTo(call, 1)})
			}
			return all
		}}
		ctx, cancel := context.WithTimeout(bg, 500*time.Millisecond)
		defer cancel()
		n := 0
		count := func(netip.AddrPort) bool { n++; return true }
		must.Succeed(t, (&Broadcast{To: oneAddress}).call(ctx, s, testProc(tAdd), words{1, 2}, words{0}, count))
		must.Equal(t, "servers", n, maxAnswers)

		s.queue, n = nil, 0
		enough := func(netip.AddrPort) bool { n++; return n < 3 }
		must.Succeed(t, (&Broadcast{To: oneAddress}).call(bg, s, testProc(tAdd), words{1, 2}, words{0}, enough))
		must.Equal(t, "servers", n, 3)
	})
}

// A broadcast fails only if no address can be sent to.
func TestBroadcastCannotSend(t *testing.T) {
	never := func(netip.AddrPort) bool { t.Error("a reply"); return false }
	s := &simulatedSocket{start: time.Now(), sendTo: syscall.ENETUNREACH, script: func(int, []byte) []udpAnswer { return nil }}
	err := (&Broadcast{To: oneAddress}).call(bg, s, testProc(tAdd), words{1, 2}, words{0}, never)
	if !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("err: %v, want %v", err, syscall.ENETUNREACH)
	}
	if err := (&Broadcast{}).Call(bg, testProc(tAdd), words{1, 2}, words{0}, never); err == nil {
		t.Error("a broadcast to no address succeeds")
	}
	err = (&Broadcast{To: oneAddress}).Call(bg, testProc(tWrite), &writeArgs{make([]byte, 65500)}, words{}, never)
	if !errors.Is(err, ErrDatagramSize) {
		t.Errorf("err: %v, want %v", err, ErrDatagramSize)
	}
}

// Over sockets all servers answer, with a credential that they accept.
func TestBroadcastOverSockets(t *testing.T) {
	var to []netip.AddrPort
	want := map[netip.AddrPort]bool{}
	for _, at := range []string{"127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"} {
		addr, _, _ := serveUDP(t, at)
		to = append(to, addr)
		want[addr] = true
	}
	b := &Broadcast{To: to, Auth: NewAuth(SysCred()), Resend: 100 * time.Millisecond}
	sum := words{0}
	err := b.Call(bg, testProc(tAdd), words{40, 2}, sum, func(from netip.AddrPort) bool {
		if !want[from] || sum[0] != 42 {
			t.Errorf("%v: sum %d", from, sum[0])
		}
		delete(want, from)
		return len(want) > 0
	})
	if err != nil || len(want) > 0 {
		t.Errorf("err %v, missing %v", err, want)
	}
}

// The context's end, even before the call, ends a broadcast without an error.
func TestBroadcastContext(t *testing.T) {
	addr, _, _ := serveUDP(t, "127.0.0.1:0")
	ctx, cancel := context.WithCancel(bg)
	b := &Broadcast{To: []netip.AddrPort{addr}, Resend: time.Hour}
	must.Succeed(t, b.Call(ctx, testProc(tAdd), words{1, 2}, words{0}, func(netip.AddrPort) bool { cancel(); return true }))
	must.Succeed(t, b.Call(ctx, testProc(tAdd), words{1, 2}, words{0}, func(netip.AddrPort) bool { t.Error("a reply"); return true }))
}

func TestLastAddr(t *testing.T) {
	for _, c := range []struct{ cidr, want string }{
		{"192.0.2.7/24", "192.0.2.255"}, {"10.1.2.3/8", "10.255.255.255"}, {"192.0.2.5/30", "192.0.2.7"}, {"192.0.2.5/32", "192.0.2.5"},
	} {
		ip, n, err := net.ParseCIDR(c.cidr)
		must.Succeed(t, err)
		must.Equal(t, c.cidr, lastAddr(&net.IPNet{IP: ip, Mask: n.Mask}).String(), c.want)
	}
	if _, err := BroadcastAddrs(111); err != nil {
		t.Errorf("BroadcastAddrs: %v", err)
	}
}

// FuzzBroadcastReply: any datagram is ignored, or is the reply of one server.
func FuzzBroadcastReply(f *testing.F) {
	call := callBytes(7, tAdd, words{1, 2})
	for _, b := range [][]byte{{}, call, replyTo(call), replyTo(call, 3), replyTo(call, 3)[:23]} {
		f.Add(b)
	}
	from := oneAddress[0]
	f.Fuzz(func(t *testing.T, b []byte) {
		x := broadcastCall{xid: 7, res: words{0}, seen: map[netip.AddrPort]bool{}}
		if x.takes(b, from) != x.seen[from] || x.takes(b, from) {
			t.Errorf("%x is taken twice, or not noted", b)
		}
	})
}
