// Timers: repetition, timeouts, and the effect of an MRA.

package cm

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// run advances a side through its deadlines until no timer runs or limit is reached, and returns
// when datagrams were sent.
func (s *side) run(limit Instant) (at []Instant) {
	s.t.Helper()
	for range 1000 {
		next, ok := s.cm.NextDeadline()
		if !ok || next > limit {
			return at
		}
		s.cm.Advance(next)
		for range s.sent() {
			at = append(at, next)
		}
	}
	s.t.Fatal("the deadlines have no end")
	return nil
}

func wantTimes(t *testing.T, got []Instant, n int, interval Instant) {
	t.Helper()
	for i, at := range got {
		if at != Instant(min(i+1, n))*interval && i < n {
			t.Errorf("datagram %d at %d", i, at)
		}
	}
	if len(got) != n {
		t.Errorf("%d datagrams, want %d: %v", len(got), n, got)
	}
}

const interval = 4096 << 18 // ns: the default timeout

// An unanswered REQ is repeated as often as configured; then the peer and the owner are notified.
func TestRequestIsRepeated(t *testing.T) {
	a, _ := two(t)
	ka, err := a.cm.Connect(0, request())
	must.Succeed(t, err)
	first := a.says(mad.AttrREQ)
	for i := range 15 {
		at, ok := a.cm.NextDeadline()
		if !ok || at != Instant(i+1)*interval {
			t.Fatalf("repetition %d at %d", i, at)
		}
		if a.cm.Advance(at - 1); len(a.sent()) != 0 {
			t.Fatal("early")
		}
		if a.cm.Advance(at); a.says(mad.AttrREQ) != first {
			t.Fatal("another REQ")
		}
	}
	at, _ := a.cm.NextDeadline()
	a.cm.Advance(at)
	a.says(mad.AttrREJ)
	es := a.told()
	must.Equal(t, "len(es)", len(es), 2)
	must.Equal(t, "es[0].Err", es[0].Err, ErrTimeout)
	must.Equal(t, "es[0].Conn", es[0].Conn, ka)
	must.Equal(t, "es[1].Kind", es[1].Kind, Released)
	must.Equal(t, "at", at, 16*interval)
	n := a.cm.Counters()
	must.Equal(t, "n.Repeated", n.Repeated, 15)
	must.Equal(t, "n.Expired", n.Expired, 1)
	must.Equal(t, "n.Sent", n.Sent, 17)
}

// The peer is notified of the timeout, although it never answered.
func TestRequestTimeoutIsReported(t *testing.T) {
	a, b := two(t)
	ka, kb := ask(t, a, b, 0)
	must.Succeed(t, a.cm.Disconnect(1, ka, nil))
	b.hears(2, a, a.says(mad.AttrREJ), Accepted)
	var refusal *RejectError
	if es := b.told(); len(es) != 2 || es[0].Conn != kb || !errors.As(es[0].Err, &refusal) || refusal.Reason != mad.RejTimeout || len(refusal.Info) != 8 {
		t.Errorf("%+v", es)
	}
	if es := a.told(); len(es) != 2 || es[0].Err != nil {
		t.Errorf("%+v", es)
	}
	if err := b.cm.Accept(3, kb, qpB, nil); err != ErrState {
		t.Errorf("accepted: %v", err)
	}
}

// An MRA delays the next repetition as requested, within bounds.
func TestMRA(t *testing.T) {
	for code, want := range map[mad.Timeout]Instant{20: 4 * interval, 31: 120 * second} {
		a, b := two(t)
		_, kb := ask(t, a, b, 0)
		b.hears(5, a, Datagram{MAD: a.lastOf()}, DropDuplicate)
		d := b.says(mad.AttrMRA)
		m := mad.ParseMRA((*mad.Data)(d.MAD[mad.HeaderLen:]))
		m.ServiceTimeout = code
		a.hears(7, b, by(mad.AttrMRA, kb.tid, &m), Accepted)
		if at, _ := a.cm.NextDeadline(); at != 7+want {
			t.Errorf("MRA %d: again at %d, want %d", code, at, 7+want)
		}
		a.cm.Advance(7 + want)
		a.says(mad.AttrREQ)
	}
}

// lastOf returns the last datagram on the side's only connection.
func (s *side) lastOf() [mad.Len]byte {
	for _, k := range s.cm.conns {
		return k.last
	}
	s.t.Fatal("no connection")
	return [mad.Len]byte{}
}

// A repeated REQ gets the same REP, and a repeated REP the same RTU; each event comes once.
func TestAnswersAreRepeated(t *testing.T) {
	a, b := two(t)
	ka, kb := ask(t, a, b, 0)
	req := Datagram{MAD: ka.last}
	must.Succeed(t, b.cm.Accept(1, kb, qpB, nil))
	rep := b.says(mad.AttrREP)
	b.hears(2, a, req, DropDuplicate)
	if b.says(mad.AttrREP) != rep {
		t.Error("another REP")
	}
	a.hears(3, b, rep, Accepted)
	a.one(Replied)
	a.hears(3, b, rep, DropDuplicate) // the owner has not confirmed yet
	a.silent()
	must.Succeed(t, a.cm.Confirm(4, ka, []byte("x")))
	rtu := a.says(mad.AttrRTU)
	a.one(Established)
	a.hears(5, b, rep, DropDuplicate)
	if a.says(mad.AttrRTU) != rtu {
		t.Error("another RTU")
	}
	b.hears(6, a, rtu, Accepted)
	b.one(Established)
	b.hears(6, a, rtu, DropDuplicate)
	b.hears(6, a, req, DropDuplicate)
	for _, s := range []*side{a, b} {
		s.silent()
		if es := s.told(); len(es) != 0 {
			t.Errorf("told %v", kinds(es))
		}
	}
}

// Without an RTU, a timer repeats a REP only to a proven address.
func TestREPIsRepeated(t *testing.T) {
	a, b := two(t)
	_, kb := ask(t, a, b, 0)
	must.Succeed(t, b.cm.Accept(0, kb, qpB, nil))
	b.says(mad.AttrREP)
	if at := b.run(2 * 60 * second); len(at) != 0 {
		t.Errorf("sent at %v", at)
	}
	if es := b.told(); len(es) != 2 || es[0].Err != ErrTimeout || es[1].Kind != Released {
		t.Errorf("%+v", es)
	}
	if n := b.cm.Counters(); n.Withheld != 16 { // 15 REPs and a REJ
		t.Errorf("%+v", n)
	}

	connected(t, a, b, 0)
	_, kb = ask(t, a, b, 0)
	must.Succeed(t, b.cm.Accept(0, kb, qpB, nil))
	b.says(mad.AttrREP)
	wantTimes(t, b.run(15*interval), 15, interval)
	b.cm.Advance(16 * interval)
	if es := b.told(); len(es) != 2 || es[0].Err != ErrTimeout {
		t.Errorf("%+v", es)
	}
	d := b.says(mad.AttrREJ)
	r, err := mad.ParseREJ((*mad.Data)(d.MAD[mad.HeaderLen:]))
	if err != nil || r.Reason != mad.RejTimeout || r.InfoLen != 8 || binary.BigEndian.Uint64(r.Info[:]) != b.cm.cfg.GUID || r.RemoteCommID == 0 {
		t.Errorf("%+v, %v", r, err) // Linux finds its connection by the GUID
	}
}

// A packet on the queue pair makes the CM repeat the REP for another RTU, and establishes
// nothing.
func TestPacketBeforeRTU(t *testing.T) {
	a, b := two(t)
	_, kb := ask(t, a, b, 0)
	b.cm.Heard(0, kb)
	b.silent()
	must.Succeed(t, b.cm.Accept(0, kb, qpB, nil))
	rep := b.says(mad.AttrREP)
	for _, at := range []Instant{1, 2, minHeard} { // a burst of packets counts once
		b.cm.Heard(at, kb)
	}
	if b.says(mad.AttrREP) != rep || len(b.told()) != 0 {
		t.Error("another REP, or an event")
	}
	b.cm.Heard(1+minHeard, kb)
	b.says(mad.AttrREP)
}

// A REQ's times are limited.
func TestTimesOfARequest(t *testing.T) {
	for _, c := range []struct {
		timeout mad.Timeout
		retries uint8
		want    Instant
	}{{0, 0, second}, {0, 15, 1600 * millisecond}, {20, 15, 60 * second}, {31, 15, 60 * second}} {
		_, b := two(t)
		m := peerREQ(b)
		m.LocalCMTimeout, m.RemoteCMTimeout, m.MaxCMRetries = c.timeout, c.timeout, c.retries
		b.hearsFrom(0, addrA, by(mad.AttrREQ, peerTID, m), Accepted)
		must.Succeed(t, b.cm.Accept(0, b.one(Requested).Conn, qpB, nil))
		b.run(c.want - 1)
		if es := b.told(); len(es) != 0 {
			t.Errorf("time-out %d: ended early", c.timeout)
		}
		b.run(c.want)
		if es := b.told(); len(es) == 0 || es[0].Err != ErrTimeout {
			t.Errorf("time-out %d: %+v", c.timeout, es)
		}
	}
}

// A request ignored by the program expires.
func TestRequestExpires(t *testing.T) {
	for _, r := range []row{{"REQ received", reqReceived, makeReqReceived}, {"SIDR_REQ received", sidrReqReceived, makeAsked}} {
		_, b := two(t)
		r.make(t, b)
		b.told()
		b.run(60*second - 1)
		if es := b.told(); len(es) != 0 {
			t.Errorf("%s: early", r.name)
		}
		b.run(60 * second)
		if es := b.told(); len(es) != 2 || es[0].Err != ErrTimeout || b.cm.Conns() != 0 {
			t.Errorf("%s: %+v", r.name, es)
		}
	}
}

// A DREQ is repeated until a timeout; so is a SIDR request.
func TestDREQIsRepeated(t *testing.T) {
	_, b := two(t)
	makeDreqSent(t, b)
	b.sent()
	b.told()
	wantTimes(t, b.run(16*interval), 15, interval)
	if e := b.one(Ended); e.Err != nil {
		t.Error(e.Err)
	}
	b.run(20 * interval)
	b.one(Released)

	makeAsking(t, b)
	b.sent()
	wantTimes(t, b.run(16*interval), 15, interval)
	if es := b.told(); len(es) != 2 || es[0].Err != ErrTimeout {
		t.Errorf("%+v", es)
	}
}

// The number of connections in time-wait is bounded: the oldest leaves.
func TestTimeWaitIsBounded(t *testing.T) {
	a, b := two(t, func(c *Config) { c.TimeWaits = 3 })
	for i := range 5 {
		ka, _ := connected(t, a, b, 0)
		must.Succeed(t, a.cm.Disconnect(0, ka, nil))
		b.hears(0, a, a.says(mad.AttrDREQ), Accepted)
		a.hears(0, b, b.says(mad.AttrDREP), Accepted)
		if es := a.told(); len(es) != 1+i/3 {
			t.Errorf("%d: told %v", i, kinds(es))
		}
		b.told()
		b.cm.Advance(second) // before the same QPN is requested again
		b.told()
	}
	if a.cm.Conns() != 3 {
		t.Errorf("%d connections", a.cm.Conns())
	}
}
