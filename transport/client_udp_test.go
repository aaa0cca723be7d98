// Calls over UDP: lost, late, duplicate and forged datagrams, on simulated time and on sockets.

package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A scriptedServer is the far end of a simulated socket: it notes each datagram with its time, and
// answers as its script says.
type scriptedServer struct {
	nc    net.Conn
	start time.Time
	calls []datagramAt
}

type datagramAt struct {
	after time.Duration
	b     []byte
}

// dialScripted returns a Client of a server whose answer to call number n is script(n, call).
func dialScripted(t *testing.T, cfg ClientConfig, script func(n int, call []byte) [][]byte) (*Client, *scriptedServer) {
	t.Helper()
	simulateCalls(t)
	near, far := net.Pipe()
	s := &scriptedServer{nc: far, start: time.Now()}
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return near, nil }
	c, err := DialUDP(bg, "192.0.2.1:111", cfg)
	must.Succeed(t, err)
	go func() {
		buf := make([]byte, datagramSpace)
		for {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			s.calls = append(s.calls, datagramAt{time.Since(s.start), bytes.Clone(buf[:n])})
			for _, reply := range script(len(s.calls), s.calls[len(s.calls)-1].b) {
				if _, err := far.Write(reply); err != nil {
					return
				}
			}
		}
	}()
	return c, s
}

// times returns when the calls arrived.
func (s *scriptedServer) times() (all []time.Duration) {
	synctest.Wait()
	for _, d := range s.calls {
		all = append(all, d.after)
	}
	return all
}

// replyTo returns a successful reply to a call.
func replyTo(call []byte, res ...uint32) []byte {
	e := xdr.NewEncoder(nil)
	(&oncrpc.ReplyHeader{XID: binary.BigEndian.Uint32(call)}).EncodeXDR(e)
	words(res).EncodeXDR(e)
	return e.Bytes()
}

// Waits double up to RetryTimeout, all transmissions are equal, and the call ends in time.
func TestUDPBackoff(t *testing.T) {
	silent := func(int, []byte) [][]byte { return nil }
	const s = time.Second
	for _, c := range []struct {
		name string
		cfg  ClientConfig
		want []time.Duration
		end  time.Duration
	}{
		{"defaults", ClientConfig{}, []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 51 * s}, 60 * s},
		{"short", ClientConfig{Resend: s / 2, RetryTimeout: s, CallTimeout: 3 * s}, []time.Duration{0, s / 2, 3 * s / 2, 5 * s / 2}, 3 * s},
		{"two retries", ClientConfig{MaxRetries: 2, CallTimeout: 10 * s}, []time.Duration{0, 1 * s, 3 * s}, 10 * s},
		{"no retries", ClientConfig{MaxRetries: -1, CallTimeout: 5 * s}, []time.Duration{0}, 5 * s},
		{"hard with retries", ClientConfig{MaxRetries: 1, CallTimeout: Hard}, []time.Duration{0, 1 * s}, 3 * s},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, far := dialScripted(t, c.cfg, silent)
			defer client.Close()
			err := client.Call(bg, testProc(tAdd), words{1, 2}, words{0}, nil, 0)
			var connect *ConnectError
			if !errors.As(err, &connect) || !connect.Timeout() {
				t.Errorf("%s: %v, want a ConnectError that is a timeout", c.name, err)
			}
			if took := time.Since(far.start); took != c.end {
				t.Errorf("%s: the call ended after %v, want %v", c.name, took, c.end)
			}
			if got := far.times(); !slices.Equal(got, c.want) {
				t.Errorf("%s: sent at %v, want %v", c.name, got, c.want)
			}
			for _, d := range far.calls {
				if !bytes.Equal(d.b, far.calls[0].b) {
					t.Errorf("%s: retransmission %x, want %x", c.name, d.b, far.calls[0].b)
				}
			}
		})
	}
}

// A call takes the reply to any of its transmissions, and ignores all other datagrams.
func TestUDPIgnoresOtherDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first []byte
		c, far := dialScripted(t, ClientConfig{}, func(n int, call []byte) [][]byte {
			switch n {
			case 1:
				first = call
				other := replyTo(call, 99)
				other[3]++ // another XID
				unknown := replyTo(call, 98)
				unknown[11] = 7 // reply_stat
				return [][]byte{other, call, unknown, {}, {1, 2, 3}, call[:4], replyTo(call)[:20]}
			case 2: // a late reply, and its duplicate
				return [][]byte{replyTo(first, 42), replyTo(first, 42)}
			}
			return [][]byte{replyTo(first, 41), replyTo(call, 43)} // one more duplicate
		})
		defer c.Close()
		for _, want := range []uint32{42, 43} {
			res := words{0}
			if err := c.Call(bg, testProc(tAdd), words{40, 2}, res, nil, 0); err != nil || res[0] != want {
				t.Errorf("result %d, %v; want %d", res[0], err, want)
			}
		}
		if got, want := far.times(), []time.Duration{0, time.Second, time.Second}; !slices.Equal(got, want) {
			t.Errorf("sent at %v, want %v", got, want)
		}
	})
}

// The context's end ends a call between two transmissions, and the next call is unaffected.
func TestUDPContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := dialScripted(t, ClientConfig{}, func(n int, call []byte) [][]byte {
			if n < 3 {
				return nil
			}
			return [][]byte{replyTo(call, 5)}
		})
		defer c.Close()
		ctx, cancel := context.WithTimeout(bg, 2500*time.Millisecond)
		defer cancel()
		if err := c.Call(ctx, testProc(tAdd), words{1, 2}, words{0}, nil, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err: %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(far.start); took != 2500*time.Millisecond {
			t.Errorf("the call took %v", took)
		}
		res := words{0}
		if err := c.Call(bg, testProc(tAdd), words{1, 2}, res, nil, 0); err != nil || res[0] != 5 {
			t.Errorf("result %d, %v", res[0], err)
		}
	})
}

// Close ends calls that wait.
func TestUDPClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dialScripted(t, ClientConfig{CallTimeout: Hard}, func(int, []byte) [][]byte { return nil })
		ended := make(chan error, 1)
		go func() { ended <- c.Call(bg, testProc(tAdd), words{1, 2}, words{0}, nil, 0) }()
		time.Sleep(10 * time.Second) // simulated
		must.Succeed(t, c.Close())
		if err := <-ended; err != ErrClosed {
			t.Errorf("err: %v, want %v", err, ErrClosed)
		}
	})
}

// A scriptedConn fails reads and writes as its functions say.
type scriptedConn struct {
	net.Conn
	write func(b []byte) error
	reads chan error
	end   chan struct{}
}

func (c *scriptedConn) Write(b []byte) (int, error) { return len(b), c.write(b) }
func (c *scriptedConn) Close() error                { close(c.end); return nil }
func (c *scriptedConn) Read([]byte) (int, error) {
	select {
	case err := <-c.reads:
		return 0, err
	case <-c.end:
		return 0, net.ErrClosed
	}
}

// ICMP messages end the waiting calls, except with the CallTimeout Hard, and the socket stays.
func TestUDPUnreachable(t *testing.T) {
	for _, hard := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			simulateCalls(t)
			nc := &scriptedConn{reads: make(chan error, 1), end: make(chan struct{})}
			sent, dials := 0, 0
			nc.write = func([]byte) error {
				sent++
				nc.reads <- &net.OpError{Op: "read", Err: syscall.ECONNREFUSED}
				return nil
			}
			cfg := ClientConfig{Dial: func(context.Context, string, string) (net.Conn, error) { dials++; return nc, nil }}
			if hard {
				cfg.CallTimeout = Hard
			}
			c, err := DialUDP(bg, "192.0.2.1:111", cfg)
			must.Succeed(t, err)
			defer c.Close()
			ctx, cancel := context.WithTimeout(bg, 10*time.Second)
			defer cancel()
			err = c.Call(ctx, testProc(tAdd), words{1, 2}, words{0}, nil, 0)
			if want := map[bool]error{false: syscall.ECONNREFUSED, true: context.DeadlineExceeded}[hard]; !errors.Is(err, want) {
				t.Errorf("hard %v: %v, want %v", hard, err, want)
			}
			if want := map[bool]int{false: 1, true: 6}[hard]; sent != want || dials != 1 {
				t.Errorf("hard %v: %d calls over %d sockets, want %d over 1", hard, sent, dials, want)
			}
		})
	}
}

// A refusal to send is the call's error; an earlier datagram's error is not.
func TestUDPSendErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []error // of successive writes
		want   error
	}{
		{"earlier datagram", []error{syscall.ECONNREFUSED, nil}, errNoAnswer},
		{"no buffers", []error{syscall.ENOBUFS}, errNoAnswer},
		{"no route", []error{syscall.ENETUNREACH, syscall.ENETUNREACH}, syscall.ENETUNREACH},
		{"too long for the link", []error{syscall.EMSGSIZE}, ErrDatagramSize},
	} {
		synctest.Test(t, func(t *testing.T) {
			simulateCalls(t)
			nc := &scriptedConn{reads: make(chan error), end: make(chan struct{})}
			writes := c.writes
			nc.write = func([]byte) (err error) {
				err, writes = writes[0], writes[1:]
				return err
			}
			client, err := DialUDP(bg, "192.0.2.1:111", ClientConfig{MaxRetries: -1,
				Dial: func(context.Context, string, string) (net.Conn, error) { return nc, nil }})
			must.Succeed(t, err)
			defer client.Close()
			if err := client.Call(bg, testProc(tAdd), words{1, 2}, words{0}, nil, 0); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if len(writes) != 0 {
				t.Errorf("%s: %d writes are missing", c.name, len(writes))
			}
		})
	}
}

// A broken socket is replaced, and the call goes on under its XID.
func TestUDPSocketIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		simulateCalls(t)
		var calls [][]byte
		cfg := ClientConfig{Dial: func(context.Context, string, string) (net.Conn, error) {
			nc := &scriptedConn{reads: make(chan error, 1), end: make(chan struct{})}
			nc.write = func(b []byte) error {
				calls = append(calls, bytes.Clone(b))
				nc.reads <- syscall.ENOMEM
				return nil
			}
			return nc, nil
		}, MaxRetries: 2}
		c, err := DialUDP(bg, "192.0.2.1:111", cfg)
		must.Succeed(t, err)
		defer c.Close()
		if err := c.Call(bg, testProc(tAdd), words{1, 2}, words{0}, nil, 0); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("err: %v, want %v", err, syscall.ENOMEM)
		}
		if len(calls) != 3 || !bytes.Equal(calls[0], calls[2]) {
			t.Errorf("calls %x, want three equal ones", calls)
		}
	})
}

// Calls over sockets get results, items, errors and refused sizes, and a non-idempotent call runs
// once.
func TestUDPClient(t *testing.T) {
	for _, at := range []struct{ listen, host string }{{"127.0.0.1:0", "127.0.0.1"}, {"[::]:0", "::1"}, {"0.0.0.0:0", "127.0.0.2"}} {
		to, p, _ := serveUDP(t, at.listen)
		addr := netip.AddrPortFrom(netip.MustParseAddr(at.host), to.Port()).String()
		c, err := DialUDP(bg, addr, ClientConfig{Resend: 10 * time.Second})
		must.Succeed(t, err)
		t.Cleanup(func() { c.Close() })
		sum := words{0}
		if err := c.Call(bg, testProc(tAdd), words{40, 2}, sum, nil, 0); err != nil || sum[0] != 42 {
			t.Errorf("%s: sum %d, %v", at.host, sum[0], err)
		}
		sink := make([]byte, 5000)
		if err := c.Call(bg, testProc(tRead), words{5000}, new(readRes), sink, 0); err != nil || !bytes.Equal(sink[:251], pattern) {
			t.Errorf("%s: READ: %v, %x", at.host, err, sink[:16])
		}
		wrote := words{0, 0}
		if err := c.Call(bg, testProc(tWrite), &writeArgs{sink}, wrote, nil, 0); err != nil || wrote[0] != 5000 {
			t.Errorf("%s: WRITE: %v, %d bytes", at.host, err, wrote[0])
		}
		for _, bad := range []struct {
			proc uint32
			args xdr.Marshaler
			want error
		}{
			{tNone, words{}, ErrProcUnavail},
			{tRead, words{9000}, ErrSystem}, // longer than the server's MaxMessage
			{tWrite, &writeArgs{make([]byte, 9000)}, ErrGarbageArgs},
			{tWrite, &writeArgs{make([]byte, 65500)}, ErrDatagramSize},
		} {
			if err := c.Call(bg, testProc(bad.proc), bad.args, words{}, nil, 0); !errors.Is(err, bad.want) {
				t.Errorf("%s: procedure %d: %v, want %v", at.host, bad.proc, err, bad.want)
			}
		}
		runs := words{0}
		if err := c.Call(bg, testProc(tCount), words{0}, runs, nil, 0); err != nil || p.runs.Load() != 1 {
			t.Errorf("%s: %d runs, %v", at.host, p.runs.Load(), err)
		}
	}
}

// The server runs a non-idempotent call once, however often its datagram comes.
func TestUDPClientRepeats(t *testing.T) {
	to, p, _ := serveUDP(t, "127.0.0.1:0")
	c, err := DialUDP(bg, to.String(), ClientConfig{Resend: time.Millisecond, RetryTimeout: 5 * time.Millisecond, CallTimeout: Hard})
	must.Succeed(t, err)
	defer c.Close()
	ended := make(chan error, 1)
	runs := words{0}
	go func() { ended <- c.Call(bg, testProc(tHold), words{}, runs, nil, 0) }()
	<-p.entered
	p.release()
	if err := <-ended; err != nil || runs[0] != 1 || p.runs.Load() != 1 {
		t.Errorf("%d runs, then %d, %v; want 1", runs[0], p.runs.Load(), err)
	}
}

// A reply from another address is not taken, even with the right XID.
func TestUDPWrongSource(t *testing.T) {
	server, err := ListenUDP("127.0.0.1:0")
	must.Succeed(t, err)
	defer server.Close()
	other, err := ListenUDP("127.0.0.1:0")
	must.Succeed(t, err)
	defer other.Close()
	c, err := DialUDP(bg, server.LocalAddr().String(), ClientConfig{Resend: 10 * time.Second})
	must.Succeed(t, err)
	defer c.Close()
	go func() {
		buf := make([]byte, 2048)
		n, from, err := server.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		_, _ = other.WriteToUDPAddrPort(replyTo(buf[:n], 666), from)
		_, _ = server.WriteToUDPAddrPort(replyTo(buf[:n], 42), from)
	}()
	res := words{0}
	if err := c.Call(bg, testProc(tAdd), words{40, 2}, res, nil, 0); err != nil || res[0] != 42 {
		t.Errorf("result %d, %v; want 42", res[0], err)
	}
}

// A port without a server is an error at once, by the kernel's ICMP message.
func TestUDPPortUnreachable(t *testing.T) {
	free, err := ListenUDP("127.0.0.1:0")
	must.Succeed(t, err)
	addr := free.LocalAddr().String()
	c, err := DialUDP(bg, addr, ClientConfig{Service: "test", CallTimeout: time.Hour})
	must.Succeed(t, err)
	defer c.Close()
	free.Close()
	err = c.Call(bg, testProc(tAdd), words{1, 2}, words{0}, nil, 0)
	var connect *ConnectError
	if !errors.As(err, &connect) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("err: %v, want a ConnectError for %v", err, syscall.ECONNREFUSED)
	}
}

func TestUDPHasNoTLS(t *testing.T) {
	_, err := DialUDP(bg, "127.0.0.1:1", ClientConfig{TLS: &tls.Config{MinVersion: tls.VersionTLS13}})
	if !errors.Is(err, errNoUDPTLS) {
		t.Errorf("err: %v, want %v", err, errNoUDPTLS)
	}
}

// FuzzUDPReply: any datagram leaves the client usable, and none but a reply ends the call.
func FuzzUDPReply(f *testing.F) {
	call := callBytes(7, tAdd, words{1, 2})
	for _, b := range [][]byte{{}, call, replyTo(call), replyTo(call, 3), replyTo(call, 3)[:23], replyTo(call, 3, 4)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxDatagram {
			return
		}
		b = bytes.Clone(b)
		k := newOutCallPool().Get().(*outCall)
		c := newClient(ClientConfig{}, "192.0.2.1:1")
		k.xid, k.answers, k.proc, k.args, k.res = 7, &c.answers, testProc(tAdd), words{1, 2}, words{0}
		near, far := net.Pipe()
		l := newUDPClientConn(near)
		defer l.close(ErrClosed)
		go func() {
			buf := make([]byte, 2048)
			n, _ := far.Read(buf)
			_, _ = far.Write(b)
			_, _ = far.Write(replyTo(buf[:n], 3))
		}()
		err := k.attemptOnce(bg, l, time.Time{})
		mine := len(b) >= 8 && binary.BigEndian.Uint32(b) == 7 && binary.BigEndian.Uint32(b[4:]) == msgReply
		if err != nil && !mine {
			t.Errorf("%x ended the call: %v", b, err)
		}
		if err == nil && k.res.(words)[0] != 3 && !mine {
			t.Errorf("%x: result %d", b, k.res.(words)[0])
		}
		far.Close()
	})
}
