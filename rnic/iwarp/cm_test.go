// MPA start-up in both roles: good, bad and slow peers.

package iwarp

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

const (
	reqKey = "4d504120494420526571204672616d65"
	repKey = "4d504120494420526570204672616d65"
)

// TestReplies compares the Reply to each kind of Request, byte by byte.
func TestReplies(t *testing.T) {
	conformance.Proves(t, "R5040-171", "R5040-273", "R5040-274", "R5040-276", "R5044-002", "R5044-049", "R5044-050", "R5044-099",
		"R5044-101", "R5044-109", "R5044-111", "R5044-112", "R5044-113", "R5044-116", "R5044-121", "R5044-127", "R6581-001",
		"R6581-004", "R6581-005", "R6581-006", "R6581-010", "R6581-011", "R6581-020", "R6581-021", "R6581-022", "R6581-023",
		"R6581-025", "R6581-034", "R6581-035", "R6581-037", "R6581-042", "R6581-044", "R6581-046", "R6581-050", "R6581-056",
		"R6581-057", "R6581-059")
	for _, c := range []struct {
		name, req, rep string
		cfg            rnic.DeviceConfig
		p              rnic.ConnParams
		ird, ord       int
	}{
		{"rev 1 R5044-115", reqKey + "40010000", repKey + "40010000", rnic.DeviceConfig{}, rnic.ConnParams{}, 128, 128},
		{"rev 1, S is a reserved bit", reqKey + "50010000", repKey + "40010000", rnic.DeviceConfig{}, rnic.ConnParams{}, 128, 128},
		{"Linux NFS client R5040-273", reqKey + "1002000c00800000f6ab0e1801010303", repKey + "5002000400800080", rnic.DeviceConfig{}, rnic.ConnParams{}, 128, 128},
		{"its IRD bounds our ORD R5040-274", reqKey + "5002000400050009", repKey + "5002000400800005", rnic.DeviceConfig{}, rnic.ConnParams{}, 128, 5},
		{"not negotiated R5040-276", reqKey + "500200043fff3fff", repKey + "500200043fff3fff", rnic.DeviceConfig{}, rnic.ConnParams{}, 128, 128},
		{"own depths", reqKey + "5002000400800080", repKey + "5002000400030004", rnic.DeviceConfig{}, rnic.ConnParams{IRD: 3, ORD: 4}, 3, 4},
		{"CRC off both R5044-051", reqKey + "1002000400100000", repKey + "1002000400800010", rnic.DeviceConfig{CRC: rnic.CRCOff}, rnic.ConnParams{}, 128, 16},
		{"CRC auto follows", reqKey + "5002000400100000", repKey + "5002000400800010", rnic.DeviceConfig{CRC: rnic.CRCAuto}, rnic.ConnParams{}, 128, 16},
		{"peer wants markers R5044-031", reqKey + "d002000400100000", repKey + "5002000400800010", rnic.DeviceConfig{}, rnic.ConnParams{}, 128, 16},
		{"peer to peer: Write chosen", reqKey + "50020004c008c008", repKey + "5002000480808008", rnic.DeviceConfig{}, rnic.ConnParams{}, 128, 8},
		{"peer to peer: none offered", reqKey + "5002000480080008", repKey + "5002000480808008", rnic.DeviceConfig{}, rnic.ConnParams{}, 128, 8},
		{"private data, R and Res in the Request R5044-109 R5044-112", reqKey + "7f02000600100000abcd", repKey + "5002000700800010010203",
			rnic.DeviceConfig{}, rnic.ConnParams{PrivateData: []byte{1, 2, 3}}, 128, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			conformance.ProvesNamed(t)
			s := &script{side: newSide(t, c.cfg, 4), t: t}
			l, _ := s.dev.Listen("tcp", "127.0.0.1:0")
			defer l.Close()
			s.dial(l.Addr())
			s.say(must.Hex(t, c.req))
			r, err := l.Accept(context.Background())
			if err != nil {
				t.Fatalf("Accept: %v", err)
			}
			if err := r.Accept(s.qp, c.p); err != nil {
				t.Fatalf("Accept: %v", err)
			}
			s.wantBytes(must.Hex(t, c.rep))
			if s.qp.IRD() != c.ird || s.qp.ORD() != c.ord {
				t.Fatalf("IRD %d ORD %d, want %d %d", s.qp.IRD(), s.qp.ORD(), c.ird, c.ord)
			}
		})
	}
}

// TestBadRequests: each bad Request closes the connection with nothing sent (RFC 5044 §7.1.2
// [R5044-123]). A wrong key does so at its first wrong byte (RFC 5044 §7.1.1 [R5044-098]).
func TestBadRequests(t *testing.T) {
	conformance.Proves(t, "R5044-098", "R5044-114", "R5044-117", "R5044-123", "R5044-135", "R5044-141", "R5044-144", "R5044-154",
		"R5044-159", "R5044-177", "R6581-012")
	d := Open(rnic.DeviceConfig{HandshakeTimeout: time.Hour}) // so that no connection times out
	l, err := d.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	for _, req := range []string{"4d504120494420526571204672616d00", "47", reqKey + "4000", reqKey + "4003",
		reqKey + "40010201", reqKey + "10020003", repKey + "40010000",
		reqKey + "4001000000174143" /* bytes behind the Request */} {
		s := &script{t: t}
		s.dial(l.Addr())
		s.say(must.Hex(t, req))
		if n, err := s.c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Fatalf("%s was answered", req)
		} else if isTimeout(err) {
			t.Fatalf("%s was taken: %v", req, err)
		}
	}
}

// TestEarlyBytes: bytes after the Request and before the Reply end the connection without an
// answer, even between the listener's Accept and the request's.
func TestEarlyBytes(t *testing.T) {
	conformance.Proves(t, "R5044-141")
	s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
	l, _ := s.dev.Listen("tcp", "127.0.0.1:0")
	defer l.Close()
	s.dial(l.Addr())
	s.say(must.Hex(t, reqKey+"5002000400100010"))
	r, err := l.Accept(context.Background())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	s.open()
	for !hasInput(r.NetConn()) {
		runtime.Gosched()
	}
	if err := r.Accept(s.qp, rnic.ConnParams{}); !errors.Is(err, mpa.ErrEarly) {
		t.Fatal(err)
	}
	if n, err := s.c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Fatal("was answered")
	}
}

// TestReject: a rejection comes with private data from both sides (RFC 5044 §7.1.2 [R5044-125], RFC
// 6581 §9).
func TestReject(t *testing.T) {
	conformance.Proves(t, "R5044-110", "R5044-124", "R5044-125", "R5044-145", "R6581-033")
	a, b := newSide(t, rnic.DeviceConfig{}, 4), Open(rnic.DeviceConfig{})
	l, _ := b.Listen("tcp", "127.0.0.1:0")
	defer l.Close()
	go func() {
		if r, err := l.Accept(context.Background()); err == nil {
			r.Reject([]byte("no, " + string(r.PrivateData())))
		}
	}()
	err := a.dev.Connect(t.Context(), a.qp, l.Addr().String(), rnic.ConnParams{PrivateData: []byte("me")})
	var re *rnic.RejectError
	if !errors.As(err, &re) {
		t.Fatalf("Connect: %v, want a *RejectError", err)
	}
	if want := (rnic.RejectError{PrivateData: []byte("no, me"), IRD: 128, ORD: 128}); !reflect.DeepEqual(*re, want) {
		t.Fatalf("Connect: got %+v, want %+v", *re, want)
	}
	if got := a.qp.State(); got != rnic.StateIdle {
		t.Fatalf("a refused QP is in state %v, want %v: it may be tried again", got, rnic.StateIdle)
	}
}

// responder connects a QP, sends reply to its Request, and returns the peer's end and Connect's
// error.
func responder(t *testing.T, cfg rnic.DeviceConfig, reply string) (*script, error) {
	t.Helper()
	s := &script{side: newSide(t, cfg, 4), t: t}
	ours, theirs := pipeTCP(t)
	s.c = theirs
	theirs.SetDeadline(time.Now().Add(time.Minute))
	go theirs.Write(must.Hex(t, reply))
	err := s.dev.ConnectOver(t.Context(), s.qp, ours, rnic.ConnParams{IRD: 16, ORD: 16, Provider: ConnOptions{Settle: -1}})
	return s, err
}

func TestReplyChecked(t *testing.T) {
	conformance.Proves(t, "R5040-273", "R5040-275", "R5041-077", "R5044-002", "R5044-050", "R5044-088", "R5044-092", "R5044-097",
		"R5044-100", "R5044-108", "R5044-117", "R5044-120", "R5044-130", "R5044-135", "R5044-138", "R6581-008", "R6581-029",
		"R6581-030", "R6581-031", "R6581-032", "R6581-049")
	for _, c := range []struct {
		name, reply string
		want        error
	}{
		{"wrong key R5044-100", "4d504120494420526570204672616d00", mpa.ErrKey},
		{"initiator/initiator", reqKey + "50020000", mpa.ErrInitiators},
		{"rev 1: no IRD/ORD", repKey + "40010000", errNotEnhanced},
		{"S clear", repKey + "40020000", errNotEnhanced},
		{"S with no room", repKey + "50020003", mpa.ErrEnhanced},
		{"too long", repKey + "50020201", mpa.ErrPDLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := responder(t, rnic.DeviceConfig{}, c.reply); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
		})
	}
	t.Run("ORD above our IRD R5040-275", func(t *testing.T) {
		s, err := responder(t, rnic.DeviceConfig{}, repKey+"5002000400100011")
		if !errors.Is(err, &term.Error{Code: term.MPAIRD}) {
			t.Fatal(err)
		}
		s.wantBytes(must.Hex(t, reqKey+"5002000400100010"))
		s.wantBytes(mpa.AppendFPDU(nil, true, terminate(0x20, 6, 0, nil)))
	})
	t.Run("IRD below our ORD", func(t *testing.T) {
		s, err := responder(t, rnic.DeviceConfig{}, repKey+"5002000400030010")
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		if got, want := [2]int{s.qp.IRD(), s.qp.ORD()}, [2]int{16, 3}; got != want {
			t.Fatalf("IRD and ORD %v, want %v", got, want)
		}
	})
	t.Run("FPDUs behind the Reply", func(t *testing.T) { // siw may send them at once
		s := &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
		ours, theirs := pipeTCP(t)
		mem := make([]byte, 8)
		recv(t, s.qp, 1, mem)
		rep := must.Hex(t, repKey+"5002000400100010")
		go theirs.Write(append(rep, must.Hex(t, "001741430000000000000000000000010000000068656c6c6f000000b990b10c")...))
		if err := s.dev.ConnectOver(t.Context(), s.qp, ours, rnic.ConnParams{}); err != nil {
			t.Fatalf("ConnectOver: %v", err)
		}
		if wc := s.want(t, rnic.OpRecv, 1, rnic.WCSuccess); string(mem[:wc.Len]) != "hello" {
			t.Fatalf("%q", mem)
		}
	})
}

// TestSlowPeers: one deadline bounds the whole frame, in both roles, however slowly bytes arrive.
func TestSlowPeers(t *testing.T) {
	conformance.Proves(t, "R5044-122", "R5044-129", "R5044-139", "R5044-142")
	trickle := func(c net.Conn, frame []byte) {
		for i := range frame {
			if _, err := c.Write(frame[i : i+1]); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
	t.Run("responder", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			pl := &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
			l := Open(rnic.DeviceConfig{}).ListenOn(pl)
			ours, theirs := net.Pipe()
			pl.conns <- ours
			start := time.Now()
			go trickle(theirs, must.Hex(t, reqKey+"40010000"))
			go io.Copy(io.Discard, theirs)
			if _, err := theirs.Read(make([]byte, 1)); err == nil {
				t.Error("was answered")
			}
			synctest.Wait()
			time.Sleep(6 * time.Second)
			if _, err := theirs.Write([]byte{0}); err == nil || time.Since(start) > 30*time.Second {
				t.Error("still open after the deadline")
			}
			l.Close()
		})
	})
	t.Run("initiator", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSide(t, rnic.DeviceConfig{}, 4)
			ours, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs)
			go trickle(theirs, must.Hex(t, repKey+"5002000400100010"))
			start := time.Now()
			err := s.dev.ConnectOver(t.Context(), s.qp, ours, rnic.ConnParams{})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != connectTimeout {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			theirs.Close()
			time.Sleep(2 * time.Second) // the trickle ends
		})
	})
}

// A pipeListener hands out connections that tests made.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestHandshakeCap: silent connections do not exceed the limit. The oldest are closed for new ones,
// so a peer that sends its Request is served beside many silent ones. The rest end with the
// listener.
func TestHandshakeCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pl := &pipeListener{conns: make(chan net.Conn, 20), done: make(chan struct{})}
		l := Open(rnic.DeviceConfig{MaxHandshakes: 2}).ListenOn(pl)
		var theirs []net.Conn
		for range 5 {
			x, y := net.Pipe()
			theirs = append(theirs, x)
			pl.conns <- y
			synctest.Wait()
		}
		for i, c := range theirs {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			if gone := err == io.EOF; gone != (i < 3) {
				t.Errorf("connection %d of 5: %v", i, err)
			}
		}
		speaks, y := net.Pipe()
		pl.conns <- y
		go speaks.Write(mpa.AppendFrame(nil, &mpa.Frame{Rev: mpa.Rev2, HasEnhanced: true}))
		r, err := l.Accept(context.Background())
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		go io.Copy(io.Discard, speaks)
		if err := r.Reject(nil); err != nil {
			t.Errorf("Reject: %v", err)
		}
		l.Close()
		for _, c := range theirs {
			c.SetReadDeadline(time.Time{})
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("after Close: %v", err)
			}
		}
		if _, err := l.Accept(context.Background()); err != rnic.ErrClosed {
			t.Error(err)
		}
	})
}

// TestOverPipe: a QP works on any net.Conn.
func TestOverPipe(t *testing.T) {
	conformance.Proves(t, "R5044-090", "R5044-094")
	for _, crc := range []rnic.CRCMode{rnic.CRCOn, rnic.CRCOff} {
		overPipe(t, rnic.DeviceConfig{CRC: crc})
	}
}

func overPipe(t *testing.T, cfg rnic.DeviceConfig) {
	a, b := newSide(t, cfg, 8), newSide(t, cfg, 8)
	pl := &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	l := b.dev.ListenOn(pl)
	defer l.Close()
	x, y := net.Pipe()
	pl.conns <- y
	ended := make(chan error, 1)
	go func() {
		r, err := l.Accept(context.Background())
		if err == nil {
			err = r.Accept(b.qp, rnic.ConnParams{})
		}
		ended <- err
	}()
	if err := a.dev.ConnectOver(t.Context(), a.qp, x, rnic.ConnParams{}); err != nil {
		t.Fatalf("ConnectOver: %v", err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	transfers(t, a, b)
	transfers(t, b, a)
}
