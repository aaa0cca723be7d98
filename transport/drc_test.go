// The duplicate request cache: once is once, over whatever connection.

package transport

import (
	"bytes"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// callOf is a call with one word of arguments.
func callOf(xid, proc, arg uint32) chunks.Message {
	var e xdr.Encoder
	h := oncrpc.CallHeader{XID: xid, Prog: testProg, Vers: testVers, Proc: proc}
	h.EncodeXDR(&e)
	e.Uint32(arg)
	return chunks.Message{Stream: e.Bytes()}
}

func TestDuplicateHasTheFirstReply(t *testing.T) {
	s, p := newTestServer(t)
	first := newTape("10.0.0.1").do(s, callOf(7, tCount, 1))
	again := newTape("10.0.0.1").do(s, callOf(7, tCount, 1)) // over another connection
	if first.how != "reply" || !bytes.Equal(first.reply, again.reply) {
		t.Errorf("first %x, again %x", first.reply, again.reply)
	}
	if n := p.runs.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// TestDuplicateOfADatagramPeer: a client over RoCE, which has a UDP address, is known by it as any other, and keeps it when it changes to TCP.
func TestDuplicateOfADatagramPeer(t *testing.T) {
	s, p := newTestServer(t)
	over := func(remote net.Addr) *tape {
		k := newTape("")
		k.peer.init(remote)
		return k
	}
	ip, other := net.ParseIP("10.0.0.1"), net.ParseIP("10.0.0.2")
	first := over(&net.UDPAddr{IP: ip, Port: 700}).do(s, callOf(7, tCount, 1))
	for _, remote := range []net.Addr{&net.UDPAddr{IP: ip, Port: 701}, &net.TCPAddr{IP: ip, Port: 701}} {
		if again := over(remote).do(s, callOf(7, tCount, 1)); first.how != "reply" || !bytes.Equal(first.reply, again.reply) {
			t.Errorf("first %x, again over %s %x", first.reply, remote.Network(), again.reply)
		}
	}
	over(&net.UDPAddr{IP: other, Port: 700}).do(s, callOf(7, tCount, 1))
	if n := p.runs.Load(); n != 2 {
		t.Errorf("ran %d times for two clients", n)
	}
	if a := hostPrefix(addrOf(&net.UDPAddr{IP: ip})); a != hostPrefix(addrOf(&net.TCPAddr{IP: ip})) || !a.IsValid() {
		t.Errorf("its connections count for %v", a)
	}
}

// forms is a call with an item of n bytes, in all the ways that it may travel: as one stream
// (TCP, or RDMA inline), and with its item in a chunk, which has the pad or lacks it.
func forms(xid, proc uint32, n int, fill byte) []chunks.Message {
	var e xdr.Encoder
	h := oncrpc.CallHeader{XID: xid, Prog: testProg, Vers: testVers, Proc: proc}
	h.EncodeXDR(&e)
	data := bytes.Repeat([]byte{fill}, n)
	reduced := append(bytes.Clone(e.Bytes()), 0, 0, byte(n>>8), byte(n))
	e.Opaque(data)
	off := len(reduced)
	padded := append(bytes.Clone(data), make([]byte, xdr.Pad(n))...)
	return []chunks.Message{
		{Stream: e.Bytes()},
		{Stream: reduced, Items: []xdr.Item{{Off: off, Data: data}}},
		{Stream: reduced, Items: []xdr.Item{{Off: off, Data: padded}}},
	}
}

// TestDuplicateInAnotherForm: a call is the same when it comes again over the other
// transport, where its item is in a chunk or is not (SYMLINK).
func TestDuplicateInAnotherForm(t *testing.T) {
	for _, n := range []int{5, 100, drcSummed + 1, 4095} {
		for i := range forms(0, tLink, n, 'a') {
			s, p := newTestServer(t)
			first := newTape("10.0.0.1").do(s, forms(7, tLink, n, 'a')[i])
			for k, m := range forms(7, tLink, n, 'a') {
				again := newTape("10.0.0.1").do(s, m)
				if again.how != "reply" || !bytes.Equal(first.reply, again.reply) {
					t.Errorf("%d bytes, form %d and then %d: first %x, again %x", n, i, k, first.reply, again.reply)
				}
			}
			for _, m := range forms(7, tLink, n, 'b')[:1] { // other content, and one byte more
				newTape("10.0.0.1").do(s, m)
			}
			newTape("10.0.0.1").do(s, forms(7, tLink, n+4, 'a')[i])
			if n := p.runs.Load(); n != 3 {
				t.Errorf("ran %d times, want 3", n)
			}
		}
	}
}

// TestNoOverlapInAnotherForm: the same of a call that runs (WRITE).
func TestNoOverlapInAnotherForm(t *testing.T) {
	const n = 4095
	for i := range forms(0, tOverItem, n, 'a') {
		s, p := newTestServer(t)
		one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
		one.start(s, forms(7, tOverItem, n, 'a')[i])
		<-p.entered
		for _, m := range forms(7, tOverItem, n, 'a') {
			two.start(s, m)
		}
		p.release()
		<-one.ends
		for range 3 {
			if got := <-two.ends; got.how != "reply" {
				t.Errorf("form %d: a copy ended by %s", i, got.how)
			}
		}
		if n := p.runs.Load(); n != 1 {
			t.Errorf("form %d: ran %d times, want once", i, n)
		}
		if n := s.drc.running.count(); n != 0 {
			t.Errorf("form %d: %d entries are kept", i, n)
		}
	}
}

func TestOtherCallsAreNoDuplicates(t *testing.T) {
	s, p := newTestServer(t)
	newTape("10.0.0.1").do(s, callOf(7, tCount, 1))
	newTape("10.0.0.2").do(s, callOf(7, tCount, 1)) // another client
	newTape("10.0.0.1").do(s, callOf(8, tCount, 1)) // another XID
	newTape("10.0.0.1").do(s, callOf(7, tCount, 2)) // other arguments: the XID is used again
	if n := p.runs.Load(); n != 4 {
		t.Errorf("ran %d times, want 4", n)
	}
}

func TestDuplicateOfARunningCall(t *testing.T) {
	for _, proc := range []uint32{tHold, tOver} {
		s, p := newTestServer(t)
		one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
		one.start(s, callOf(7, proc, 0))
		<-p.entered
		for range drcWaiters {
			two.start(s, callOf(7, proc, 0))
		}
		two.start(s, callOf(7, proc, 0))
		if got := <-two.ends; got.how != "drop" { // one more than may wait
			t.Errorf("too many duplicates: %s", got.how)
		}
		p.release()
		first := <-one.ends
		for range drcWaiters {
			if got := <-two.ends; got.how != "reply" || !bytes.Equal(got.reply, first.reply) {
				t.Errorf("duplicate: %s %x, want %x", got.how, got.reply, first.reply)
			}
		}
		if n := p.runs.Load(); n != 1 {
			t.Errorf("ran %d times", n)
		}
	}
}

// TestNewestCopyIsAnswered: however often a client has lost its connection and sent a call
// again while the first copy runs, the reply goes to the connection that it has now.
func TestNewestCopyIsAnswered(t *testing.T) {
	for _, proc := range []uint32{tHold, tOver} {
		s, p := newTestServer(t)
		first, newest := newTape("10.0.0.1"), newTape("10.0.0.1")
		first.start(s, callOf(7, proc, 0))
		<-p.entered
		var lost []*tape
		for range 2 * drcWaiters {
			lost = append(lost, newTape("10.0.0.1"))
			lost[len(lost)-1].start(s, callOf(7, proc, 0))
		}
		newest.start(s, callOf(7, proc, 0))
		p.release()
		if got := <-newest.ends; got.how != "reply" {
			t.Errorf("the newest copy ends by %s", got.how)
		}
		for i, l := range lost {
			want := "drop"
			if i > drcWaiters { // with the newest these are all that may wait
				want = "reply"
			}
			if got := <-l.ends; got.how != want {
				t.Errorf("copy %d ends by %s, want %s", i, got.how, want)
			}
		}
		<-first.ends
	}
}

// What failed as an RPC is not kept: the next attempt may do better.
func TestFailedCallIsNotKept(t *testing.T) {
	s, _ := newTestServer(t)
	newTape("10.0.0.1").do(s, callOf(7, tSystem, 0))
	newTape("10.0.0.1").do(s, callOf(7, tPanic, 0))
	if n := len(s.drc.entries); n != 0 {
		t.Errorf("%d entries are kept", n)
	}
}

// TestDRCExpiresByItself: replies do not stay in an idle server for longer than their time.
func TestDRCExpiresByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDRC()
		add := func(xid uint32) {
			e := &drcEntry{key: drcKey{xid: xid}, at: time.Now()}
			d.mu.Lock()
			d.entries[e.key] = e
			d.push(e)
			d.mu.Unlock()
		}
		count := func() int {
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.entries)
		}
		for range 2 { // the timer is set again for the next busy time
			add(1)
			time.Sleep(drcAge / 2)
			add(2)
			time.Sleep(drcAge/2 - 1)
			if n := count(); n != 2 {
				t.Errorf("%d are left before their time, want 2", n)
			}
			time.Sleep(time.Nanosecond)
			if n := count(); n != 1 {
				t.Errorf("%d are left after the first one's time, want 1", n)
			}
			time.Sleep(drcAge / 2)
			if n := count(); n != 0 {
				t.Errorf("%d are left of an idle server", n)
			}
		}
		d.close()
		add(3)
		time.Sleep(2 * drcAge)
		if n := count(); n != 1 {
			t.Error("a timer runs in a server that has been closed")
		}
	})
}

func TestDRCBounds(t *testing.T) {
	d := newDRC()
	defer d.close() // or its timer comes when a later test runs
	now := time.Now()
	for i := range drcEntries + 100 {
		e := &drcEntry{key: drcKey{xid: uint32(i)}, reply: make([]byte, 24), at: now}
		d.entries[e.key] = e
		d.push(e)
	}
	if len(d.entries) != drcEntries || d.bytes != 24*drcEntries {
		t.Errorf("%d entries of %d bytes", len(d.entries), d.bytes)
	}
	if d.entries[drcKey{xid: 99}] != nil || d.entries[drcKey{xid: 100}] == nil {
		t.Error("the oldest was not the one to go")
	}
	big := &drcEntry{key: drcKey{prog: 1}, reply: make([]byte, drcBytes), at: now}
	d.entries[big.key] = big
	d.push(big)
	if len(d.entries) != 1 {
		t.Errorf("%d entries, though bytes are bounded", len(d.entries))
	}
	d.expire(now.Add(drcAge - 1))
	if len(d.entries) != 1 {
		t.Error("removed before its time")
	}
	d.expire(now.Add(drcAge))
	if len(d.entries) != 0 || d.bytes != 0 || d.done != 0 {
		t.Errorf("%d entries, %d bytes, %d done after all have expired", len(d.entries), d.bytes, d.done)
	}
}

// TestNoOverlapRunsBesideNoCopy: a copy of a call that runs waits for it, also over another
// connection, and has its reply; afterwards nothing of it is kept.
func TestNoOverlapRunsBesideNoCopy(t *testing.T) {
	s, p := newTestServer(t)
	one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
	one.start(s, callOf(7, tOver, 0))
	<-p.entered
	two.start(s, callOf(7, tOver, 0))
	two.start(s, callOf(8, tOver, 0)) // another call runs
	<-p.entered
	if n := p.runs.Load(); n != 2 {
		t.Errorf("%d run, want two", n)
	}
	p.release()
	first := <-one.ends
	for range 2 {
		if got := <-two.ends; got.how != "reply" {
			t.Errorf("ended by %s", got.how)
		} else if bytes.Equal(got.reply[:4], first.reply[:4]) && !bytes.Equal(got.reply, first.reply) {
			t.Errorf("the copy has %x, the first %x", got.reply, first.reply)
		}
	}
	one.do(s, callOf(7, tOver, 0))
	if n := p.runs.Load(); n != 3 {
		t.Errorf("ran %d times: the reply of an idempotent call was kept", n)
	}
	if n := len(s.drc.entries) + s.drc.running.count(); n != 0 {
		t.Errorf("%d entries are kept", n)
	}
}

// TestQueuedCallOfEndedConnectionDoesNotRun: its client has sent it again, over a
// connection that lives: that copy runs, once, in its place.
func TestQueuedCallOfEndedConnectionDoesNotRun(t *testing.T) {
	s, p := newTestServer(t)
	one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
	ctx, end := context.WithCancel(context.Background())
	one.ctx = ctx
	for xid := range uint32(one.work.most) {
		one.start(s, callOf(100+xid, tHold, 0))
		<-p.entered
	}
	before := p.runs.Load()
	one.start(s, callOf(7, tCount, 1)) // waits for a worker, as does the next
	one.start(s, callOf(8, tCount, 1))
	two.start(s, callOf(7, tCount, 1))
	end()
	p.release()
	if got := <-two.ends; got.how != "reply" {
		t.Errorf("the copy ended by %s", got.how)
	}
	for dropped := 0; dropped < 2; {
		if got := <-one.ends; got.how == "drop" {
			dropped++
		}
	}
	if n := p.runs.Load() - before; n != 1 {
		t.Errorf("ran %d times, want once", n)
	}
	if again := two.do(s, callOf(8, tCount, 1)); again.how != "reply" { // nothing of it is left over
		t.Errorf("sent again: %s", again.how)
	}
}

// TestCopyTakesThePlaceOfACall: of copies that wait for a call which does not run, the first
// runs in its place, and the others have its reply.
func TestCopyTakesThePlaceOfACall(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		d := newDRC()
		from := newTape("10.0.0.1")
		proc := &Procedure{Idempotent: idempotent, NoOverlap: idempotent}
		call := func() (*Call, bool) {
			c := getCall(from)
			from.calls.tryEnter()
			c.proc, c.header.XID = proc, 7
			c.args.Reset(make([]byte, 200), nil)
			c.res.Reset(make([]byte, 0, 64))
			return c, d.admit(c, from.peer.addr)
		}
		first, runs := call()
		second, waits := call()
		_, waitsToo := call()
		if !runs || waits || waitsToo {
			t.Fatalf("admitted: %v, %v, %v", runs, waits, waitsToo)
		}
		if next := d.abandon(first); next != second || first.dup != nil || second.dup == nil {
			t.Fatalf("idempotent %v: not the first copy takes the place", idempotent)
		}
		second.res.Raw([]byte("done"))
		d.finish(second, true)
		if got := <-from.ends; got.how != "reply" || string(got.reply) != "done" {
			t.Errorf("idempotent %v: the other copy: %s %q", idempotent, got.how, got.reply)
		}
		last, runs := call()
		if runs != idempotent { // a reply is kept for the others only
			t.Errorf("idempotent %v: run again: %v", idempotent, runs)
		}
		if runs && d.abandon(last) != nil {
			t.Error("nobody waits")
		}
		if n := d.running.count(); n != 0 {
			t.Errorf("%d entries are left", n)
		}
		d.close()
	}
}

// The reply of a call is for its own user: another on the same machine, by what it says or
// by what the kernel says, has its call run, and a program that refuses it is asked first.
func TestDuplicateOfAnotherUser(t *testing.T) {
	s, p := newTestServer(t)
	as := func(uid, gid uint32, owner Owner) tapeEnd {
		cred := Cred{Flavor: oncrpc.FlavorSys, UID: uid, GID: gid}
		h := oncrpc.CallHeader{XID: 7, Prog: testProg, Vers: testVers, Proc: tCount,
			Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorSys, Body: cred.body()}}
		var e xdr.Encoder
		h.EncodeXDR(&e)
		e.Uint32(1)
		from := newTape("127.0.0.1")
		from.peer.owner = owner
		return from.do(s, chunks.Message{Stream: e.Bytes()})
	}
	first := Owner{OwnerLocal, 1000}
	as(1000, 5, first)
	as(1000, 5, first)
	if n := p.runs.Load(); n != 1 {
		t.Errorf("ran %d times, want 1", n)
	}
	as(1001, 5, first)
	as(1000, 6, first)
	as(1000, 5, Owner{OwnerLocal, 1001})
	as(1000, 5, Owner{Kind: OwnerRemote})
	if n := p.runs.Load(); n != 5 {
		t.Errorf("ran %d times, want 5", n)
	}
	s.programs[testProg][0].Authorize = func(c *Call) oncrpc.AuthStat {
		if c.Cred.UID != 1000 || c.Owner != first {
			return oncrpc.AuthBadCred
		}
		return oncrpc.AuthTooWeak
	}
	refused := as(1000, 5, first)
	if n := p.runs.Load(); n != 5 || refused.how != "reply" || !bytes.HasSuffix(refused.reply, []byte{0, 0, 0, 1, 0, 0, 0, 5}) {
		t.Errorf("ran %d times, reply % x", n, refused.reply)
	}
}

// count is how many calls wait or run.
func (r *runningCalls) count() (n int) {
	for i := range r.buckets {
		b := &r.buckets[i]
		b.mu.Lock()
		for e := b.head; e != nil; e = e.next {
			n++
		}
		b.mu.Unlock()
	}
	return n
}
