// Normal connections: opening, rejecting, closing; and SIDR requests.

package cm

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Each side learns the other's queue pair and private data, and both get Established.
func TestConnect(t *testing.T) {
	a, b := two(t)
	ka, err := a.cm.Connect(0, request())
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	b.hears(1, a, a.says(mad.AttrREQ), Accepted)
	e := b.one(Requested)
	must.Equal(t, "e.Remote", e.Remote, qpA)
	must.Equal(t, "e.Source", e.Source, netip.AddrPortFrom(addrA, 0xc001))
	if !bytes.HasPrefix(e.Private, []byte("hello\x00")) {
		t.Fatalf("e.Private: %.64q, want prefix %q", e.Private, []byte("hello\x00"))
	}
	must.Equal(t, "len(e.Private)", len(e.Private), 56)
	must.Equal(t, "e.Conn.Peer()", e.Conn.Peer(), addrA)
	must.Equal(t, "e.Conn.Service()", e.Conn.Service(), service)
	must.Equal(t, "e.Conn.Active()", e.Conn.Active(), false)
	if err := b.cm.Accept(2, e.Conn, qpB, []byte("welcome")); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	a.hears(3, b, b.says(mad.AttrREP), Accepted)
	r := a.one(Replied)
	want := qpB
	want.PathMTU, want.RetryCount = qpA.PathMTU, qpA.RetryCount // the request's values
	must.Equal(t, "r.Conn", r.Conn, ka)
	must.Equal(t, "r.Remote", r.Remote, want)
	if !bytes.HasPrefix(r.Private, []byte("welcome\x00")) {
		t.Fatalf("r.Private: %.64q, want prefix %q", r.Private, []byte("welcome\x00"))
	}
	must.Equal(t, "len(r.Private)", len(r.Private), 196)
	b.silent()
	if err := a.cm.Confirm(4, ka, nil); err != nil {
		t.Fatalf("Confirm: %v", err)
	}
	if a.one(Established).Conn != ka {
		t.Error("another connection")
	}
	a.says(mad.AttrRTU) // lost, and repeated by timer only
	b.silent()
	first := true
	for range rtuRepeats {
		at, ok := a.cm.NextDeadline()
		if !ok {
			t.Fatal("no RTU is to come")
		}
		a.cm.Advance(at)
		want := DropDuplicate
		if first {
			want = Accepted
		}
		b.hears(at, a, a.says(mad.AttrRTU), want)
		if first && b.one(Established).Conn != e.Conn {
			t.Error("another connection")
		}
		first = false
	}
	if at, ok := a.cm.NextDeadline(); ok {
		a.cm.Advance(at)
	}
	for _, s := range []*side{a, b} {
		if at, ok := s.cm.NextDeadline(); ok {
			t.Errorf("a connection that is made waits for %d", at)
		}
		s.silent()
	}
}

// The disconnecting side gets Ended after the peer's answer, the peer at once; QPNs are free
// later.
func TestDisconnect(t *testing.T) {
	for _, passive := range []bool{false, true} {
		a, b := two(t)
		ka, kb := connected(t, a, b, 0)
		if passive {
			a, b, ka, kb = b, a, kb, ka
		}
		if err := a.cm.Disconnect(10, ka, []byte("bye")); err != nil {
			t.Fatalf("Disconnect: %v", err)
		}
		b.hears(11, a, a.says(mad.AttrDREQ), Accepted)
		if e := b.one(Ended); e.Conn != kb || e.Err != ErrDisconnected {
			t.Errorf("%+v", e)
		}
		a.hears(12, b, b.says(mad.AttrDREP), Accepted)
		if e := a.one(Ended); e.Conn != ka || e.Err != nil {
			t.Errorf("%+v", e)
		}
		for _, s := range []*side{a, b} {
			at, ok := s.cm.NextDeadline()
			if !ok {
				t.Fatal("time-wait has no end")
			}
			s.cm.Advance(at - 1)
			if es := s.told(); len(es) != 0 {
				t.Errorf("early: %v", kinds(es))
			}
			s.cm.Advance(at)
			s.one(Released)
			s.silent()
			if s.cm.Conns() != 0 {
				t.Errorf("%d connections are left", s.cm.Conns())
			}
		}
	}
}

// A program's rejection includes its data; a rejection by the CM itself includes the reason.
func TestReject(t *testing.T) {
	a, b := two(t)
	_, kb := ask(t, a, b, 0)
	if err := b.cm.Reject(1, kb, mad.RejConsumer, []byte("no")); err != nil {
		t.Fatalf("Reject: %v", err)
	}
	a.hears(2, b, b.says(mad.AttrREJ), Accepted)
	es := a.told()
	must.Equal(t, "len(es)", len(es), 2)
	must.Equal(t, "es[0].Kind", es[0].Kind, Ended)
	must.Equal(t, "es[1].Kind", es[1].Kind, Released)
	var refusal *RejectError
	if !errors.As(es[0].Err, &refusal) {
		t.Fatalf("es[0].Err: %v, want a %T", es[0].Err, refusal)
	}
	must.Equal(t, "refusal.Reason", refusal.Reason, mad.RejConsumer)
	if !bytes.HasPrefix(refusal.Private, []byte("no\x00")) {
		t.Fatalf("refusal.Private: %.64q, want prefix %q", refusal.Private, []byte("no\x00"))
	}
	must.Equal(t, "len(refusal.Private)", len(refusal.Private), 148)
	b.cm.Unlisten(service)
	if _, err := a.cm.Connect(3, request()); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	b.hears(4, a, a.says(mad.AttrREQ), DropRefused)
	a.hears(5, b, b.says(mad.AttrREJ), Accepted)
	if es := a.told(); !errors.As(es[0].Err, &refusal) || refusal.Reason != mad.RejServiceID {
		t.Errorf("%v", es[0].Err)
	}
	b.cm.Advance(100 * second)
	b.one(Released)
	if a.cm.Conns() != 0 || b.cm.Conns() != 0 {
		t.Error("connections are left")
	}
}

// A SIDR request is answered with a queue pair and its Q_Key, or refused.
func TestResolve(t *testing.T) {
	a, b := two(t)
	ask := func(want Drop) {
		t.Helper()
		if _, err := a.cm.Resolve(0, Request{Peer: addrB, Service: sidrIP, SourcePort: 7, Private: []byte("who")}); err != nil {
			t.Fatalf("Resolve: %v", err)
		}
		b.hears(1, a, a.says(mad.AttrSIDRREQ), want)
	}
	ask(Accepted)
	e := b.one(Asked)
	must.Equal(t, "e.Source", e.Source, netip.AddrPortFrom(addrA, 7))
	if !bytes.HasPrefix(e.Private, []byte("who\x00")) {
		t.Fatalf("e.Private: %.64q, want prefix %q", e.Private, []byte("who\x00"))
	}
	must.Equal(t, "len(e.Private)", len(e.Private), 180)
	if err := b.cm.Answer(2, e.Conn, mad.SIDRValid, 0x77, 0x1234567, []byte("me")); err != nil {
		t.Fatalf("Answer: %v", err)
	}
	a.hears(3, b, b.says(mad.AttrSIDRREP), Accepted)
	es := a.told()
	must.Equal(t, "len(es)", len(es), 2)
	must.Equal(t, "es[0].Kind", es[0].Kind, Resolved)
	must.Equal(t, "es[1].Kind", es[1].Kind, Released)
	must.Equal(t, "es[0].Remote", es[0].Remote, QP{QPN: 0x77, QKey: 0x1234567})
	if !bytes.HasPrefix(es[0].Private, []byte("me\x00")) {
		t.Fatalf("es[0].Private: %.64q, want prefix %q", es[0].Private, []byte("me\x00"))
	}
	b.cm.Unlisten(sidrIP)
	ask(DropRefused)
	a.hears(4, b, b.says(mad.AttrSIDRREP), Accepted)
	var refusal *SIDRError
	if es := a.told(); !errors.As(es[0].Err, &refusal) || refusal.Status != mad.SIDRUnsupported {
		t.Errorf("%v", es[0].Err)
	}
	b.cm.Advance(100 * second)
	b.one(Released)
	if a.cm.Conns() != 0 || b.cm.Conns() != 0 {
		t.Error("connections are left")
	}
}
