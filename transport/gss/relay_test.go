// A relay: retransmission, replay and forged replies; and the contexts that a client accepts.

package gss

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A relay passes a TCP connection's bytes and can cut it. It records the client's bytes.
type relay struct {
	l        net.Listener
	to       string
	mu       sync.Mutex
	conns    []net.Conn
	recorded [][]byte       // the client's bytes by connection
	change   func(b []byte) // changes the server's bytes, if not nil
}

func newRelay(t *testing.T, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	r := &relay{l: l, to: to}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			r.mu.Lock()
			i := len(r.recorded)
			r.conns, r.recorded = append(r.conns, in, out), append(r.recorded, nil)
			r.mu.Unlock()
			all.Go(func() { r.pass(in, out, i) })
			all.Go(func() { r.pass(out, in, -1) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.cut()
		all.Wait()
	})
	return r
}

func (r *relay) pass(from, to net.Conn, record int) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		r.mu.Lock()
		if record >= 0 {
			r.recorded[record] = append(r.recorded[record], buf[:n]...)
		} else if r.change != nil {
			r.change(buf[:n])
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// forge makes f change the server's bytes from now on.
func (r *relay) forge(f func(b []byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change = f
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// calls returns the recorded messages of a connection.
func (r *relay) calls(i int) (msgs [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for b := r.recorded[i]; len(b) >= 4; {
		n := int(binary.BigEndian.Uint32(b) &^ (1 << 31))
		msgs, b = append(msgs, b[4:4+n]), b[4+n:]
	}
	return msgs
}

// TestRetransmission: if the connection is cut during a call, the call runs once, with its XID and
// a new sequence number. The server drops recorded copies.
func TestRetransmission(t *testing.T) {
	conformance.Proves(t, "R2203-038", "R2203-039")
	for _, service := range services {
		r := newRig(t, tcp, nil)
		proxy := newRelay(t, r.addr)
		c, err := transport.DialTCP(bg, proxy.l.Addr().String(), transport.ClientConfig{})
		must.Succeed(t, err)
		defer c.Close()
		as := r.users().Auth("alice", service)
		must.Succeed(t, add(bg, c, as))
		out := words{0}
		done := make(chan error, 1)
		go func() { done <- c.CallAs(bg, as, testProc(tHold), nil, &out, nil, 0) }()
		<-r.entered
		proxy.cut()
		must.Become(t, "another connection with the call", func() bool {
			proxy.mu.Lock()
			defer proxy.mu.Unlock()
			return len(proxy.recorded) == 2 && len(proxy.recorded[1]) > 0
		})
		close(r.hold)
		if err := <-done; err != nil || out[0] != 1 || r.runs.Load() != 1 {
			t.Errorf("service %d: %d, %v, ran %d times, want once", service, out[0], err, r.runs.Load())
		}
		before, after := proxy.calls(0), proxy.calls(1)
		first, second := before[len(before)-1], after[0]
		if !bytes.Equal(first[:4], second[:4]) || bytes.Equal(first[36:44], second[36:44]) {
			t.Errorf("service %d: calls %x and %x, want one XID and two numbers", service, first[:48], second[:48])
		}
		p := r.hand()
		p.xid = 1 << 30
		for _, msg := range append(before[1:], after...) {
			p.dropped("a recorded call", msg)
		}
		if n := r.runs.Load(); n != 1 {
			t.Errorf("service %d: recorded calls ran: %d", service, n)
		}
	}
}

// TestStoredReplies: a repeated call gets its stored result, protected anew; another principal does
// not, nor does another service.
func TestStoredReplies(t *testing.T) {
	r := newRig(t, tcp, nil)
	for _, service := range services {
		r.runs.Store(0)
		message := func(p *handPeer, seq uint32, s transport.Service) []byte {
			h := p.data(seq, s, tCount)
			h.XID = 777 * uint32(service)
			return encode(p.sign(h), p.args(s, seq, words{5}.EncodeXDR))
		}
		// cut sends a call, and cuts the connection without reading the reply.
		cut := func(p *handPeer, seq uint32, s transport.Service, runs uint32) {
			t.Helper()
			p.send(message(p, seq, s))
			must.Become(t, "a reply", func() bool { return r.runs.Load() == runs })
			p.nc.(*net.TCPConn).SetLinger(0)
			p.nc.Close()
		}
		ask := func(p *handPeer, seq uint32, s transport.Service) uint32 {
			t.Helper()
			got, res := p.exchangeBytes(message(p, seq, s))
			p.checkVerifier("COUNT", got, seq)
			plain := res.Rest()
			switch s {
			case transport.ServiceIntegrity:
				plain = plain[8:12]
			case transport.ServicePrivacy:
				sealed, err := p.ctx.Unwrap(plain[4:])
				must.Succeed(t, err)
				must.Equal(t, "the number in the results", binary.BigEndian.Uint32(sealed), seq)
				plain = sealed[4:]
			}
			return binary.BigEndian.Uint32(plain)
		}
		first := r.handContext("alice")
		cut(first, 1, service, 1)
		again := r.hand()
		again.ctx, again.handle = first.ctx, first.handle
		must.Equal(t, "the repeated one", ask(again, 2, service), 1)
		for _, row := range []struct {
			user    string
			service transport.Service
			want    uint32
		}{{"alice", service, 1}, {"bob", service, 2}, {"alice", services[int(service)%3], 3}} {
			again.nc.(*net.TCPConn).SetLinger(0)
			again.nc.Close()
			again = r.handContext(row.user)
			if got := ask(again, 3, row.service); got != row.want {
				t.Errorf("service %d: repeated by %+v: run %d, want %d", service, row, got, row.want)
			}
		}
	}
}

// TestForgedReplies: a changed bit in any byte of a reply makes the call fail.
func TestForgedReplies(t *testing.T) {
	conformance.Proves(t, "R2203-021", "R2203-041")
	for _, service := range services {
		for off := 8; off < 100; off++ {
			if service == transport.ServiceNone && off >= 4+24+32 {
				break // the results are not protected
			}
			r := newRig(t, tcp, nil)
			proxy := newRelay(t, r.addr)
			c, err := transport.DialTCP(bg, proxy.l.Addr().String(), transport.ClientConfig{})
			must.Succeed(t, err)
			as := r.users().Auth("alice", service)
			must.Succeed(t, add(bg, c, as))
			forged := false
			proxy.forge(func(b []byte) {
				if off < len(b) {
					b[off], forged = b[off]^1, true
				}
			})
			err = add(bg, c, as)
			proxy.forge(nil)
			if err == nil && forged {
				t.Errorf("service %d: a reply with a changed byte %d is taken", service, off)
			}
			c.Close()
		}
	}
}

// TestChangedHandle: a handle that changes between the exchanges of a creation is refused.
func TestChangedHandle(t *testing.T) {
	conformance.Proves(t, "R2203-014")
	r := newRig(t, tcp, func(r *rig, _ *ServerConfig, _ *transport.ServerConfig) { r.realm.legs = 2 })
	proxy := newRelay(t, r.addr)
	const last = 4 + 24 + 32 + 4 + 16 + 12 + 4 + 32
	proxy.forge(func(b []byte) {
		if len(b) == last { // the first has no verifier
			b[4+24+32+4] ^= 1
		}
	})
	c, err := transport.DialTCP(bg, proxy.l.Addr().String(), transport.ClientConfig{})
	must.Succeed(t, err)
	defer c.Close()
	want := "RPCSEC_GSS for alice: the server changes the context's handle"
	if err := add(bg, c, r.users().Auth("alice", 1)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestForgedCreation: a reply with a wrong verifier, window or token makes no context.
func TestForgedCreation(t *testing.T) {
	conformance.Proves(t, "R2203-021")
	r := newRig(t, tcp, nil)
	size := 4 + 24 + 32 + 4 + 16 + 12 + 4 + 32
	for off := 4 + 12; off < size; off++ {
		proxy := newRelay(t, r.addr)
		proxy.forge(func(b []byte) {
			if len(b) == size {
				b[off] ^= 1
			}
		})
		c, err := transport.DialTCP(bg, proxy.l.Addr().String(), transport.ClientConfig{})
		must.Succeed(t, err)
		g := r.users()
		err = add(bg, c, g.Auth("alice", 1))
		handle := off >= 4+24+32+4 && off < 4+24+32+4+16 // not covered by a MIC: the server does not know it
		minor := off >= 4+24+32+4+16+4 && off < 4+24+32+4+16+8
		if err == nil && !minor && !handle {
			t.Errorf("a context from a reply with a changed byte %d", off)
		}
		if handle && err == nil {
			t.Errorf("a call with a changed handle (byte %d) is served", off)
		}
		c.Close()
	}
}

// TestForgedErrors: the verifier of an unsuccessful reply is checked, too: a reply with a changed
// verifier is not the call's result.
func TestForgedErrors(t *testing.T) {
	conformance.Proves(t, "R2203-041", "R2203-042")
	r := newRig(t, tcp, nil)
	for _, service := range services {
		for _, off := range []int{4 + 15, 4 + 20, 4 + 20 + fakeMIC - 1} { // flavor, first and last byte
			proxy := newRelay(t, r.addr)
			c, err := transport.DialTCP(bg, proxy.l.Addr().String(), transport.ClientConfig{})
			must.Succeed(t, err)
			as := r.users().Auth("alice", service)
			must.Succeed(t, add(bg, c, as))
			proxy.forge(func(b []byte) {
				if off < len(b) {
					b[off] ^= 1
				}
			})
			err = c.CallAs(bg, as, testProc(tFail), nil, nil, nil, 0)
			if !errors.Is(err, transport.ErrBadReply) || errors.Is(err, transport.ErrSystem) {
				t.Errorf("service %d, byte %d: %v, want ErrBadReply", service, off, err)
			}
			c.Close()
		}
	}
}

// TestForgedEmptyResults: the protection of empty results is checked, too.
func TestForgedEmptyResults(t *testing.T) {
	conformance.Proves(t, "R2203-044", "R2203-045")
	r := newRig(t, tcp, nil)
	for _, service := range services[1:] {
		const body = 4 + 24 + fakeMIC + 4
		for _, off := range []int{body + 3, body + 11, body + 20} { // number and MIC, or three parts of a sealed token
			proxy := newRelay(t, r.addr)
			c, err := transport.DialTCP(bg, proxy.l.Addr().String(), transport.ClientConfig{})
			must.Succeed(t, err)
			as := r.users().Auth("alice", service)
			must.Succeed(t, c.CallAs(bg, as, testProc(tNull), nil, nil, nil, 0))
			proxy.forge(func(b []byte) {
				if off < len(b) {
					b[off] ^= 1
				}
			})
			if err := c.CallAs(bg, as, testProc(tNull), nil, nil, nil, 0); !errors.Is(err, transport.ErrBadReply) {
				t.Errorf("service %d, byte %d: %v, want ErrBadReply", service, off, err)
			}
			c.Close()
		}
	}
}

// TestControlXIDs: each message of a creation has its own XID. A late reply to an abandoned
// creation is therefore not taken for the reply to another one.
func TestControlXIDs(t *testing.T) {
	r := newRig(t, tcp, func(r *rig, _ *ServerConfig, _ *transport.ServerConfig) { r.realm.legs = 3 })
	proxy := newRelay(t, r.addr)
	c, err := transport.DialTCP(bg, proxy.l.Addr().String(), transport.ClientConfig{})
	must.Succeed(t, err)
	defer c.Close()
	must.Succeed(t, add(bg, c, r.users().Auth("alice", transport.ServiceNone)))
	seen := map[string]bool{}
	for _, msg := range proxy.calls(0) {
		seen[string(msg[:4])] = true
	}
	if want := 4; len(seen) != want || len(proxy.calls(0)) != want {
		t.Errorf("%d calls with %d XIDs, want %d: three of the creation, and ADD", len(proxy.calls(0)), len(seen), want)
	}
}

// TestEmptyWindow: a proven server with an empty window gives no context.
func TestEmptyWindow(t *testing.T) {
	x := newFakeRealm().context("alice@TEST", "", true)
	verf := oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: x.MIC(nil, make([]byte, 4))}
	u := &user{client: NewClient(ClientConfig{})}
	peer := newFakeRealm().context("alice@TEST", "", false)
	if got, err := u.establish(peer, verf, &initRes{handle: []byte{1}}, nil); err == nil || err.Error() != "the server's sequence window is empty" {
		t.Errorf("got %v, %v, want the refusal of an empty window", got, err)
	}
}

// TestCreationReplies: a client accepts only valid results of a creation.
func TestCreationReplies(t *testing.T) {
	first := credential{message: messageInit}
	later := credential{message: messageContinue, handle: []byte{1}}
	for _, row := range []struct {
		cred credential
		res  initRes
		want string // the error; "": none
	}{
		{first, initRes{handle: []byte{1}, major: Complete}, ""},
		{first, initRes{handle: []byte{1}, major: ContinueNeeded}, ""},
		{later, initRes{handle: []byte{1}, major: Complete}, ""},
		{later, initRes{handle: []byte{2}, major: Complete}, "the server changes the context's handle"},
		{first, initRes{major: Complete}, "the server gives the context no handle"},
		{first, initRes{handle: []byte{1}, major: 2}, "the server answers with the unexpected status 0x2"},
		{first, initRes{handle: []byte{1}, major: CredentialsExpired, minor: 7}, "the server refuses the context: the credentials have expired (GSS major 0xb0000, minor 0x7)"},
		{first, initRes{handle: []byte{1}, major: 0x01000000}, "the server refuses the context: failure: the server's log says why (GSS major 0x1000000, minor 0x0)"},
	} {
		got := ""
		if err := checkCreation(&row.cred, &row.res); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%+v: got %q, want %q", row.res, got, row.want)
		}
	}
}

// TestContextServes: a client's context serves until its ticket's end and its last number.
func TestContextServes(t *testing.T) {
	end := time.Unix(1e9, 0)
	for _, row := range []struct {
		now  time.Time
		next uint32
		want bool
	}{
		{end.Add(-1), 1, true},
		{end.Add(-1), maxSeq - 1, true},
		{end.Add(-1), maxSeq, false},
		{end, 1, false},
		{end.Add(time.Hour), 1, false},
	} {
		x := &clientContext{ends: end}
		x.window.init(row.next, 1)
		if got := x.serves(row.now); got != row.want {
			t.Errorf("at %v with number %#x: %v, want %v", row.now, row.next, got, row.want)
		}
	}
}
