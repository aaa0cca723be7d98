// The server's rules, by calls written by hand.

package gss

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// tcp is the network of the tests with a handPeer.
var tcp = networks[0]

// checkDenied checks that a reply is AUTH_ERROR with stat, byte by byte.
func checkDenied(t *testing.T, what string, h *oncrpc.ReplyHeader, d *xdr.Decoder, stat oncrpc.AuthStat) {
	t.Helper()
	want := must.Hex(t, fmt.Sprintf("%08x 00000001 00000001 00000001 %08x", h.XID, uint32(stat)))
	if got := append(bytes.Clone(d.Before()), d.Rest()...); !bytes.Equal(got, want) {
		t.Errorf("%s: reply %x, want %x (%v)", what, got, want, stat)
	}
}

// checkVerifier checks an accepted reply's verifier over a sequence number.
func (p *handPeer) checkVerifier(what string, h *oncrpc.ReplyHeader, seq uint32) {
	p.t.Helper()
	if h.Denied || h.Verf.Flavor != oncrpc.FlavorGSS {
		p.t.Fatalf("%s: reply %+v, want a verifier of RPCSEC_GSS", what, h)
	}
	if err := p.ctx.VerifyMIC(h.Verf.Body, binary.BigEndian.AppendUint32(nil, seq)); err != nil {
		p.t.Errorf("%s: the verifier for number %d: %v", what, seq, err)
	}
}

// TestServices: calls and replies have the right bytes in each service.
func TestServices(t *testing.T) {
	conformance.Proves(t, "R2203-001", "R2203-021", "R2203-028", "R2203-031", "R2203-032", "R2203-033", "R2203-034", "R2203-035",
		"R2203-041", "R2203-043", "R2203-044", "R2203-045")
	r := newRig(t, tcp, nil)
	p := r.handContext("alice")
	for i, service := range services {
		seq := uint32(10 + i)
		h, d := p.exchange(p.data(seq, service, tAdd), p.args(service, seq, words{40, 2}.EncodeXDR))
		p.checkVerifier("ADD", h, seq)
		want := transport.Cred{Flavor: oncrpc.FlavorKrb5 + oncrpc.Flavor(i), UID: 1010, GID: 100, GIDs: []uint32{7}, Principal: "alice@TEST"}
		got, owner := r.last()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("service %d: Cred %+v, want %+v", service, got, want)
		}
		if owner.Kind != transport.OwnerRemote {
			t.Errorf("service %d: owner %v", service, owner)
		}
		rest := d.Rest()
		var plain []byte
		switch service {
		case transport.ServiceNone:
			plain = append(binary.BigEndian.AppendUint32(nil, seq), rest...)
		case transport.ServiceIntegrity:
			d := xdr.NewDecoder(rest)
			plain = d.Opaque(100)
			if err := p.ctx.VerifyMIC(d.Opaque(100), plain); err != nil || d.Remaining() != 0 {
				t.Errorf("MIC over the results: %v, %d bytes left", err, d.Remaining())
			}
		case transport.ServicePrivacy:
			if bytes.Contains(rest, []byte{0, 0, 0, 42}) {
				t.Errorf("the sum is in clear: %x", rest)
			}
			d := xdr.NewDecoder(rest)
			var err error
			if plain, err = p.ctx.Unwrap(d.Opaque(200)); err != nil || d.Remaining() != 0 {
				t.Errorf("Unwrap: %v, %d bytes left", err, d.Remaining())
			}
		}
		if want := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, seq), 42); !bytes.Equal(plain, want) {
			t.Errorf("service %d: results %x, want %x", service, plain, want)
		}
	}
}

// TestPaddedItem: the MIC and the length cover the padding of an item.
func TestPaddedItem(t *testing.T) {
	conformance.Proves(t, "R2203-044")
	p := newRig(t, tcp, nil).handContext("alice")
	_, d := p.exchange(p.data(1, transport.ServiceIntegrity, tRead), p.args(transport.ServiceIntegrity, 1, words{5}.EncodeXDR))
	plain := d.Opaque(100)
	if err := p.ctx.VerifyMIC(d.Opaque(100), plain); err != nil || len(plain) != 4+4+4+8 {
		t.Errorf("READ of 5 bytes: %x, MIC %v, want 20 bytes", plain, err)
	}
}

// TestAcceptedErrors: replies without success have a verifier, but no protected part.
func TestAcceptedErrors(t *testing.T) {
	conformance.Proves(t, "R2203-041", "R2203-042")
	r := newRig(t, tcp, nil)
	p := r.handContext("alice")
	seq := uint32(0)
	for _, service := range services {
		for _, row := range []struct {
			proc, prog uint32
			want       oncrpc.AcceptStat
		}{{tFail, testProg, oncrpc.SystemErr}, {tProcs + 5, testProg, oncrpc.ProcUnavail}, {tAdd, testProg, oncrpc.GarbageArgs},
			{tNull, testProg + 1, oncrpc.ProgUnavail}} {
			seq++
			h := p.header(&credential{seq: seq, service: service, handle: p.handle}, row.proc)
			h.Prog = row.prog
			got, d := p.exchange(p.sign(h), p.args(service, seq, nil))
			p.checkVerifier(row.want.String(), got, seq)
			if got.Accept != row.want || d.Remaining() != 0 {
				t.Errorf("service %d: reply %+v with %d bytes left, want %v", service, got, d.Remaining(), row.want)
			}
		}
		seq++
		h, d := p.exchange(p.data(seq, service, tWeak), p.args(service, seq, nil))
		checkDenied(t, "a procedure's denial", h, d, oncrpc.AuthTooWeak)
	}
}

// TestReplays: each recorded call is dropped silently when it comes again, in or below the window.
func TestReplays(t *testing.T) {
	conformance.Proves(t, "R2203-037", "R2203-038", "R2203-065")
	r := newRig(t, tcp, nil)
	p := r.handContext("alice")
	var recorded [][]byte
	for seq := range uint32(40) {
		service := services[seq%3]
		msg := encode(p.data(seq, service, tCount), p.args(service, seq, words{seq}.EncodeXDR))
		recorded = append(recorded, msg)
		if h, _ := p.exchangeBytes(msg); !h.OK() {
			t.Fatalf("number %d: %+v", seq, h)
		}
	}
	checked := p.lastNumber()
	for i, msg := range recorded {
		p.dropped(fmt.Sprintf("replay of %d", i), msg)
	}
	other := r.hand() // over another connection, too
	other.xid = 5000
	for i, msg := range recorded {
		other.dropped(fmt.Sprintf("replay of %d over another connection", i), msg)
	}
	if n := r.runs.Load(); n != 40 || p.lastNumber() != checked {
		t.Errorf("ran %d times, want 40; last number %d, want %d", n, p.lastNumber(), checked)
	}
	if err := p.add(39 + windowSize); err != nil {
		t.Errorf("the window's end: %v", err)
	}
	below := p.data(39, services[0], tCount)
	p.dropped("the number below the window", encode(below, words{1}.EncodeXDR))
	if err := p.add(40); err != nil {
		t.Errorf("the window's first number: %v", err)
	}
	// Neither a replayed call nor one below the window costs a MIC, even a forged one.
	forged := p.data(39, services[0], tCount)
	forged.Verf.Body[0] ^= 1
	p.dropped("a forged call below the window", encode(forged, words{1}.EncodeXDR))
}

// TestConcurrentReplay: of two copies whose MICs are verified at the same time, one runs.
func TestConcurrentReplay(t *testing.T) {
	conformance.Proves(t, "R2203-038")
	r := newRig(t, tcp, nil)
	p, q := r.handContext("alice"), r.hand()
	q.ctx, q.handle = p.ctx, p.handle
	both := make(chan struct{}, 2)
	meet := func() {
		both <- struct{}{}
		for end := time.Now().Add(20 * time.Second); len(both) < 2 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	x := r.gss.contexts.find(p.handle).Context.(*fakeContext)
	x.onVerify.Store(&meet)
	msg := encode(p.data(9, transport.ServiceNone, tCount), words{1}.EncodeXDR)
	p.send(msg)
	q.send(msg)
	must.Become(t, "a call run", func() bool { return r.runs.Load() > 0 })
	x.onVerify.Store(nil)
	q.xid = 1000
	for _, peer := range []*handPeer{p, q} { // a second reply would come before this one
		peer.send(encode(&oncrpc.CallHeader{XID: 4000, Prog: testProg, Vers: testVers}, nil))
		for h, _ := peer.receive(); h.XID != 4000; h, _ = peer.receive() {
			continue
		}
	}
	if n := r.runs.Load(); n != 1 {
		t.Errorf("ran %d times, want once", n)
	}
}

// TestCredentialFaults: each fault of a credential gets its answer.
func TestCredentialFaults(t *testing.T) {
	conformance.Proves(t, "R5403-001", "R5403-002", "R5403-005", "R5403-006", "R5403-007", "R5403-008", "R2203-002", "R2203-005", "R2203-007", "R2203-008", "R2203-026", "R2203-046", "R2203-047", "R2203-050", "R2203-054",
		"R2203-055")
	r := newRig(t, tcp, nil)
	p := r.handContext("alice")
	other := bytes.Clone(p.handle)
	other[3] ^= 1
	seq := uint32(1)
	for _, row := range []struct {
		what string
		cred credential
		want oncrpc.AuthStat
	}{
		{"unknown handle", credential{seq: 9, service: 1, handle: other}, oncrpc.GSSCredProblem},
		{"no handle", credential{seq: 9, service: 1}, oncrpc.GSSCredProblem},
		{"short handle", credential{seq: 9, service: 1, handle: p.handle[:15]}, oncrpc.GSSCredProblem},
		{"long handle", credential{seq: 9, service: 1, handle: append(bytes.Clone(p.handle), 0)}, oncrpc.GSSCredProblem},
		{"service 0", credential{seq: 9, handle: p.handle}, oncrpc.AuthBadCred},
		{"service 4", credential{seq: 9, service: 4, handle: p.handle}, oncrpc.AuthBadCred},
		{"message 4", credential{message: 4, seq: 9, service: 1, handle: p.handle}, oncrpc.AuthBadCred},
		{"INIT as procedure 1", credential{message: messageInit}, oncrpc.AuthBadCred},
		{"CONTINUE_INIT as procedure 1", credential{message: messageContinue, handle: p.handle}, oncrpc.AuthBadCred},
		{"DESTROY as procedure 1", credential{message: messageDestroy, seq: 9, service: 1, handle: p.handle}, oncrpc.AuthBadCred},
		{"MAXSEQ", credential{seq: maxSeq, service: 1, handle: p.handle}, oncrpc.GSSCtxProblem},
		{"the highest number", credential{seq: 0xffffffff, service: 1, handle: p.handle}, oncrpc.GSSCtxProblem},
	} {
		h, d := p.exchange(p.sign(p.header(&row.cred, tAdd)), words{1, 2}.EncodeXDR)
		checkDenied(t, row.what, h, d, row.want)
		if err := p.add(seq); err != nil {
			t.Fatalf("a valid call after %s: %v", row.what, err)
		}
		seq++
	}
	versioned := func(m message, v byte) *oncrpc.CallHeader {
		c := credential{message: m, seq: 20, service: 1, handle: p.handle}
		if m == messageInit {
			c.handle = nil
		}
		h := p.header(&c, 0)
		h.Cred.Body[3] = v
		return p.sign(h)
	}
	for _, v := range []byte{0, 2, 3} {
		h, d := p.exchange(versioned(messageData, v), nil)
		checkDenied(t, "another version of DATA", h, d, oncrpc.AuthBadCred)
		h, d = p.exchange(versioned(messageDestroy, v), nil)
		checkDenied(t, "another version of DESTROY", h, d, oncrpc.AuthBadCred)
		h, d = p.exchange(versioned(messageInit, v), nil)
		checkDenied(t, "another version of INIT", h, d, oncrpc.AuthRejectedCred)
	}
	short := p.header(&credential{seq: 21, service: 1, handle: p.handle}, tAdd)
	for n := range len(short.Cred.Body) {
		h := *short
		h.Cred.Body = short.Cred.Body[:n]
		got, d := p.exchange(p.sign(&h), words{1, 2}.EncodeXDR)
		checkDenied(t, fmt.Sprintf("a credential of %d bytes", n), got, d, oncrpc.AuthBadCred)
	}
	none := p.data(22, 1, tAdd)
	none.Verf = oncrpc.OpaqueAuth{}
	h, d := p.exchange(none, words{1, 2}.EncodeXDR)
	checkDenied(t, "no verifier", h, d, oncrpc.AuthBadVerf)
	if err := p.add(maxSeq - 1); err != nil {
		t.Errorf("the last number: %v", err)
	}
}

// TestNoFlavor: a server without RPCSEC_GSS denies with AUTH_REJECTEDCRED.
func TestNoFlavor(t *testing.T) {
	r := newRig(t, tcp, nil)
	p := r.hand()
	h := &oncrpc.CallHeader{XID: 1, Prog: testProg, Vers: testVers, Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorDH}}
	got, d := p.exchange(h, nil)
	checkDenied(t, "AUTH_DH", got, d, oncrpc.AuthRejectedCred)
}

// A lockedLog collects log lines.
type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestCreationFaults: each creation message with a fault fails, with the right reply.
func TestCreationFaults(t *testing.T) {
	conformance.Proves(t, "R2203-003", "R2203-012", "R2203-013", "R2203-015", "R2203-019", "R2203-022", "R2203-025", "R2203-026")
	var log lockedLog
	r := newRig(t, tcp, func(_ *rig, g *ServerConfig, _ *transport.ServerConfig) {
		g.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	p := r.hand()
	token := func(principal string) []byte { return r.realm.token(principal, "0123456789abcdef") }
	init := func(change func(h *oncrpc.CallHeader), token []byte) (*oncrpc.ReplyHeader, *xdr.Decoder) {
		h := p.header(&credential{message: messageInit, seq: 0xffffffff, service: 9}, 0)
		if change != nil {
			change(h)
		}
		return p.exchange(h, (&initArg{token}).EncodeXDR)
	}
	result := func(what string, h *oncrpc.ReplyHeader, d *xdr.Decoder) (res initRes) {
		t.Helper()
		if res.DecodeXDR(d); !h.OK() || d.Err() != nil || d.Remaining() != 0 {
			t.Fatalf("%s: %+v, %+v, %v", what, h, res, d.Err())
		}
		return res
	}
	h, d := init(nil, token("alice@TEST"))
	if res := result("INIT with other numbers", h, d); res.major != Complete || len(res.handle) != handleLen || res.window != 512 {
		t.Errorf("INIT with other numbers: %+v, want a context", res)
	}
	h, d = init(nil, []byte("short"))
	res := result("a short token", h, d)
	if want := (initRes{major: DefectiveToken, minor: 7}); fmt.Sprint(res) != fmt.Sprint(want) || h.Verf.Flavor != oncrpc.FlavorNone || len(h.Verf.Body) > 0 {
		t.Errorf("a short token: %+v with the verifier %+v, want %+v and none", res, h.Verf, want)
	}
	h, d = p.exchange(p.header(&credential{message: messageContinue, handle: []byte("0123456789abcdef")}, 0), (&initArg{token("a@T")}).EncodeXDR)
	if res := result("CONTINUE_INIT of nothing", h, d); res.major != NoContext || res.handle != nil || h.Verf.Flavor != oncrpc.FlavorNone {
		t.Errorf("CONTINUE_INIT of nothing: %+v", res)
	}
	h, d = init(func(h *oncrpc.CallHeader) { h.Verf = oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: []byte{1}} }, token("alice@TEST"))
	checkDenied(t, "INIT with a verifier", h, d, oncrpc.AuthBadVerf)
	h, d = init(func(h *oncrpc.CallHeader) { h.Verf.Body = []byte{1} }, token("alice@TEST"))
	checkDenied(t, "INIT with bytes in its verifier", h, d, oncrpc.AuthBadVerf)
	h, d = p.exchange(p.header(&credential{message: messageInit, handle: []byte{1}}, 0), (&initArg{token("alice@TEST")}).EncodeXDR)
	checkDenied(t, "INIT with a handle", h, d, oncrpc.AuthBadCred)
	h, d = init(nil, token("mallory@TEST"))
	checkDenied(t, "a refused principal", h, d, oncrpc.AuthFailed)
	for _, row := range []struct {
		change func(h *oncrpc.CallHeader)
		want   oncrpc.AcceptStat
	}{
		{func(h *oncrpc.CallHeader) { h.Prog++ }, oncrpc.ProgUnavail},
		{func(h *oncrpc.CallHeader) { h.Vers++ }, oncrpc.ProgMismatch},
	} {
		h, _ := init(row.change, token("alice@TEST"))
		if h.Denied || h.Accept != row.want || h.Verf.Flavor != oncrpc.FlavorNone || len(h.Verf.Body) > 0 {
			t.Errorf("INIT: %+v, want %v without a verifier", h, row.want)
		}
	}
	for n := range 20 { // truncated arguments
		h, _ := p.exchange(p.header(&credential{message: messageInit}, 0), func(e *xdr.Encoder) {
			full := xdr.NewEncoder(nil)
			(&initArg{token("alice@TEST")}).EncodeXDR(full)
			e.Raw(full.Bytes()[:n])
		})
		if h.Denied || h.Accept != oncrpc.GarbageArgs || h.Verf.Flavor != oncrpc.FlavorNone {
			t.Errorf("%d bytes of arguments: %+v, want GARBAGE_ARGS", n, h)
		}
	}
	if n := r.nulls.Load(); n != 0 {
		t.Errorf("procedure 0 ran %d times for control messages, want never", n)
	}
	if f := r.gss.Figures(); f.Contexts != 1 || f.Created != 1 || f.Refused != 2 {
		t.Errorf("figures %+v, want 1 context, 1 created, 2 refused", f)
	}
	for _, line := range []string{"RPCSEC_GSS context refused", "short token", "principal refused", "mallory@TEST"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %q:\n%s", line, log.String())
		}
	}
}

// TestDestroy: DESTROY ends a context; a replayed or forged one does not.
func TestDestroy(t *testing.T) {
	conformance.Proves(t, "R2203-003", "R2203-062", "R2203-063")
	r := newRig(t, tcp, nil)
	for _, service := range services {
		p := r.handContext("alice")
		destroy := func(seq uint32) *oncrpc.CallHeader {
			return p.header(&credential{message: messageDestroy, seq: seq, service: service, handle: p.handle}, 0)
		}
		must.Succeed(t, p.add(5))
		forged := p.sign(destroy(6))
		forged.Verf.Body[3] ^= 1
		h, d := p.exchange(forged, nil)
		checkDenied(t, "a forged DESTROY", h, d, oncrpc.GSSCredProblem)
		p.dropped("a replayed number", encode(p.sign(destroy(5)), p.args(service, 5, nil)))
		if err := p.add(7); err != nil {
			t.Fatalf("a call after them: %v", err)
		}
		h, _ = p.exchange(p.sign(destroy(8)), p.args(service, 8, nil))
		p.checkVerifier("DESTROY", h, 8)
		var refused *transport.AuthError
		if err := p.add(9); !h.OK() || !errors.As(err, &refused) || refused.Stat != oncrpc.GSSCredProblem {
			t.Errorf("service %d: DESTROY %+v, then %v, want CREDPROBLEM", service, h, err)
		}
	}
	if n := r.nulls.Load(); n > 3 { // the NULL calls of dropped
		t.Errorf("procedure 0 ran %d times, want 3", n)
	}
	if f := r.gss.Figures(); f.Contexts != 0 {
		t.Errorf("%d contexts are left", f.Contexts)
	}
}

// TestExpiry: a context ends with its ticket (CTXPROBLEM) or after idleness (CREDPROBLEM).
func TestExpiry(t *testing.T) {
	conformance.Proves(t, "R2203-051", "R2203-064")
	var offset atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	r := newRig(t, tcp, func(r *rig, g *ServerConfig, _ *transport.ServerConfig) {
		g.now, r.realm.now = clock, clock
		r.realm.life = 2 * time.Hour
	})
	idle, busy := r.handContext("alice"), r.handContext("bob")
	must.Succeed(t, idle.add(1))
	stat := func(p *handPeer, seq uint32) oncrpc.AuthStat {
		var refused *transport.AuthError
		if err := p.add(seq); err != nil && !errors.As(err, &refused) {
			t.Fatalf("ADD: %v", err)
		}
		if refused == nil {
			return oncrpc.AuthOK
		}
		return refused.Stat
	}
	for i := range 3 {
		offset.Add(int64(35 * time.Minute))
		must.Equal(t, "a call in time", stat(busy, uint32(i+1)), oncrpc.AuthOK)
	}
	must.Equal(t, "a call after an idle hour", stat(idle, 2), oncrpc.GSSCredProblem)
	offset.Add(int64(20 * time.Minute))
	forged := busy.data(9, 1, tAdd)
	forged.Verf.Body[0] ^= 1
	h, d := busy.exchange(forged, words{1, 2}.EncodeXDR)
	checkDenied(t, "a forged call after the end", h, d, oncrpc.GSSCredProblem)
	must.Equal(t, "a call after the ticket's end", stat(busy, 10), oncrpc.GSSCtxProblem)
	must.Equal(t, "the next", stat(busy, 11), oncrpc.GSSCredProblem)
}
