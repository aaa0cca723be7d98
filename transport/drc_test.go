// The duplicate request cache: one execution, over any connections.

package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// callOf returns a call with a one-word argument.
func callOf(xid, proc, arg uint32) chunks.Message {
	var e xdr.Encoder
	h := oncrpc.CallHeader{XID: xid, Prog: testProg, Vers: testVers, Proc: proc}
	h.EncodeXDR(&e)
	e.Uint32(arg)
	return chunks.Message{Stream: e.Bytes()}
}

func TestDuplicateHasTheFirstReply(t *testing.T) {
	s, p := newTestServer(t)
	one := newTape("10.0.0.1")
	first := one.do(s, callOf(7, tCount, 1))
	one.cut()
	again := newTape("10.0.0.1").do(s, callOf(7, tCount, 1)) // over another connection
	if first.how != "reply" || !bytes.Equal(first.reply, again.reply) {
		t.Errorf("first %x, again %x", first.reply, again.reply)
	}
	if n := p.runs.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// TestDuplicateOfADatagramPeer: a RoCE client is identified by its host's address, as TCP clients
// are, also after it changes to TCP.
func TestDuplicateOfADatagramPeer(t *testing.T) {
	s, p := newTestServer(t)
	over := func(remote net.Addr) *tape {
		k := newTape("")
		k.peer.init(remote)
		return k
	}
	ip, other := net.ParseIP("10.0.0.1"), net.ParseIP("10.0.0.2")
	last := over(&net.UDPAddr{IP: ip, Port: 700})
	first := last.do(s, callOf(7, tCount, 1))
	for _, remote := range []net.Addr{&net.UDPAddr{IP: ip, Port: 701}, &net.TCPAddr{IP: ip, Port: 701}} {
		last.cut()
		last = over(remote)
		if again := last.do(s, callOf(7, tCount, 1)); first.how != "reply" || !bytes.Equal(first.reply, again.reply) {
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

// forms returns a call with an item of n bytes in all wire forms: in the stream (TCP, or RDMA
// inline), and with the item in a chunk, with and without its pad.
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

// TestDuplicateInAnotherForm: a call is the same over the other transport, with its item in a
// chunk or not (SYMLINK).
func TestDuplicateInAnotherForm(t *testing.T) {
	for _, n := range []int{5, 100, drcSummed + 1, 4095} {
		for i := range forms(0, tLink, n, 'a') {
			s, p := newTestServer(t)
			last := newTape("10.0.0.1")
			first := last.do(s, forms(7, tLink, n, 'a')[i])
			for k, m := range forms(7, tLink, n, 'a') {
				last.cut()
				last = newTape("10.0.0.1")
				again := last.do(s, m)
				if again.how != "reply" || !bytes.Equal(first.reply, again.reply) {
					t.Errorf("%d bytes, form %d and then %d: first %x, again %x", n, i, k, first.reply, again.reply)
				}
			}
			for _, m := range forms(7, tLink, n, 'b')[:1] { // other content, then four bytes more
				newTape("10.0.0.1").do(s, m)
			}
			newTape("10.0.0.1").do(s, forms(7, tLink, n+4, 'a')[i])
			if n := p.runs.Load(); n != 3 {
				t.Errorf("ran %d times, want 3", n)
			}
		}
	}
}

// TestNoOverlapInAnotherForm: a copy in another form waits for the running call (WRITE).
func TestNoOverlapInAnotherForm(t *testing.T) {
	const n = 4095
	for i := range forms(0, tOverItem, n, 'a') {
		for k, m := range forms(7, tOverItem, n, 'a') {
			s, p := newTestServer(t)
			one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
			one.start(s, forms(7, tOverItem, n, 'a')[i])
			<-p.entered
			one.cut()
			two.start(s, m)
			p.release()
			<-one.ends
			if got := <-two.ends; got.how != "reply" {
				t.Errorf("form %d: a copy in form %d ended by %s", i, k, got.how)
			}
			if n := p.runs.Load(); n != 1 {
				t.Errorf("form %d: with a copy in form %d ran %d times, want once", i, k, n)
			}
			if n := s.drc.running.count(); n != 0 {
				t.Errorf("form %d: %d entries are kept", i, n)
			}
		}
	}
}

func TestOtherCallsAreNoDuplicates(t *testing.T) {
	s, p := newTestServer(t)
	for _, row := range []struct {
		ip       string
		xid, arg uint32
		// The first row again, then another client, another XID, and another argument.
	}{{"10.0.0.1", 7, 1}, {"10.0.0.2", 7, 1}, {"10.0.0.1", 8, 1}, {"10.0.0.1", 7, 2}} {
		k := newTape(row.ip)
		k.do(s, callOf(row.xid, tCount, row.arg))
		k.cut()
	}
	if n := p.runs.Load(); n != 4 {
		t.Errorf("ran %d times, want 4", n)
	}
}

// TestDuplicateOfARunningCall: copies over lost connections, one after the other, wait for the
// call, and the newest is answered.
func TestDuplicateOfARunningCall(t *testing.T) {
	for _, proc := range []uint32{tHold, tOver} {
		s, p := newTestServer(t)
		one := newTape("10.0.0.1")
		one.start(s, callOf(7, proc, 0))
		<-p.entered
		last := one
		for range 8 {
			next := newTape("10.0.0.1")
			last.cut()
			next.start(s, callOf(7, proc, 0))
			if last != one {
				if got := <-last.ends; got.how != "drop" {
					t.Errorf("procedure %d: the copy of a connection that was lost ended by %s, want drop", proc, got.how)
				}
			}
			last = next
		}
		p.release()
		first, got := <-one.ends, <-last.ends
		if got.how != "reply" || !bytes.Equal(got.reply, first.reply) {
			t.Errorf("procedure %d: the newest copy ended by %s %x, want reply %x", proc, got.how, got.reply, first.reply)
		}
		if n := p.runs.Load(); n != 1 {
			t.Errorf("procedure %d: ran %d times, want 1", proc, n)
		}
	}
}

// TestCopyOfACallThatFailsRuns: a failed call is not stored. So its copy, which waits on the
// client's new connection, runs too, and the client gets a reply.
func TestCopyOfACallThatFailsRuns(t *testing.T) {
	s, p := newTestServer(t)
	one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
	one.start(s, callOf(7, tHoldFails, 0))
	<-p.entered
	one.cut()
	two.start(s, callOf(7, tHoldFails, 0))
	p.release()
	for _, k := range []*tape{one, two} {
		if got := <-k.ends; got.how != "reply" {
			t.Errorf("ended by %s, want reply", got.how)
		}
	}
	if n := p.runs.Load(); n != 2 {
		t.Errorf("ran %d times, want 2", n)
	}
}

// A failed RPC is not stored: the next attempt may succeed.
func TestFailedCallIsNotKept(t *testing.T) {
	s, _ := newTestServer(t)
	newTape("10.0.0.1").do(s, callOf(7, tSystem, 0))
	newTape("10.0.0.1").do(s, callOf(7, tPanic, 0))
	if n := len(s.drc.entries); n != 0 {
		t.Errorf("%d entries are kept", n)
	}
}

// enterDone puts a user's reply of n bytes into the cache.
func enterDone(d *drc, ip string, user, xid uint32, n int) *drcEntry {
	e := &drcEntry{key: drcKey{addr: netip.MustParseAddr(ip), cred: uint64(user), xid: xid}, from: &origin{end: fateCut}}
	d.mu.Lock()
	e.next, d.entries[e.key] = d.entries[e.key], e
	d.mu.Unlock()
	d.keep(e, make([]byte, n))
	return e
}

// TestDRCExpiresByItself: an idle server does not keep replies past their lifetime.
func TestDRCExpiresByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDRC()
		count := func() int {
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.entries)
		}
		for range 2 { // the timer is rearmed for the next busy time
			enterDone(d, "10.0.0.1", 1, 1, 24)
			time.Sleep(drcAge / 2)
			enterDone(d, "10.0.0.1", 1, 2, 24)
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
			must.Equal(t, "len(d.all.parts)", len(d.all.parts), 0)
			must.Equal(t, "len(d.all.byKey)", len(d.all.byKey), 0)
			must.Equal(t, "d.all.size", d.all.size, 0)
		}
		d.close()
		enterDone(d, "10.0.0.1", 1, 3, 24)
		time.Sleep(2 * drcAge)
		if n := count(); n != 1 {
			t.Error("a timer runs in a server that has been closed")
		}
	})
}

// TestDRCBounds: the cache stays within its size, and a busy client loses its own replies. Other
// users on its host and other hosts lose none, unless they have most.
func TestDRCBounds(t *testing.T) {
	d := newDRC()
	defer d.close() // otherwise its timer fires in a later test
	const size = 24
	most := drcBytes / (drcEntrySize + size)
	var quiet []*drcEntry
	for i := range uint32(100) {
		quiet = append(quiet, enterDone(d, "10.0.0.1", 1, i, size), enterDone(d, "10.0.0.2", 1, i, size))
	}
	var first, second *drcEntry
	for i := range uint32(2 * most) {
		if e := enterDone(d, "10.0.0.1", 2, i, size); i == 0 {
			first = e
		} else if int(i) == most+len(quiet) {
			second = e
		}
	}
	if n := len(d.entries); n != most {
		t.Errorf("%d entries, want %d", n, most)
	}
	for _, e := range quiet {
		if d.entries[e.key] != e {
			t.Fatalf("the reply of XID %d of user %d of %v was pushed out by another user's", e.key.xid, e.key.cred, e.key.addr)
		}
	}
	if d.entries[first.key] != nil {
		t.Error("the oldest reply of the busy user is kept")
	}
	if d.entries[second.key] != second {
		t.Error("the newer half of the busy user's replies was pushed out")
	}
	// A host with many users gets no more than one with a single user.
	for i := range uint32(2 * most) {
		enterDone(d, "10.0.0.3", i, i, size)
	}
	if n := d.all.byKey[hostPrefix(netip.MustParseAddr("10.0.0.1"))].size; n < (drcBytes-len(quiet)*(drcEntrySize+size))/2 {
		t.Errorf("10.0.0.1 is left with %d bytes of %d by a host with many users", n, drcBytes)
	}
	d.expire(time.Now().Add(drcAge))
	must.Equal(t, "len(d.entries)", len(d.entries), 0)
	must.Equal(t, "d.all.size", d.all.size, 0)
	must.Equal(t, "d.byAge.Len()", d.byAge.Len(), 0)
	must.Equal(t, "len(d.all.byKey)", len(d.all.byKey), 0)
}

// TestDRCOfManyHosts: among hosts with equal shares, the one without a new reply for the longest
// time loses one.
func TestDRCOfManyHosts(t *testing.T) {
	d := newDRC()
	defer d.close()
	const size = 24
	most := drcBytes / (drcEntrySize + size)
	var all []*drcEntry
	for i := range uint32(most + 100) {
		ip := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24|i)))
		all = append(all, enterDone(d, ip.String(), 1, 1, size))
	}
	for i, e := range all {
		if kept := d.entries[e.key] == e; kept != (i >= 100) {
			t.Fatalf("host %d of %d: kept is %v", i, len(all), kept)
		}
	}
}

// TestNoOverlapRunsBesideNoCopy: a running call's copy waits for it, also over another
// connection, and gets its reply; nothing is stored afterwards.
func TestNoOverlapRunsBesideNoCopy(t *testing.T) {
	s, p := newTestServer(t)
	one, two := newTape("10.0.0.1"), newTape("10.0.0.1")
	one.start(s, callOf(7, tOver, 0))
	<-p.entered
	one.cut()
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

// TestQueuedCallOfEndedConnectionDoesNotRun: a queued call does not run once its connection has
// ended. Its client's copy over a live connection runs instead, once.
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
	one.start(s, callOf(7, tCount, 1)) // waits for a worker, like the next
	one.start(s, callOf(8, tCount, 1))
	one.cut()
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
	if again := two.do(s, callOf(8, tCount, 1)); again.how != "reply" { // nothing of it remains
		t.Errorf("sent again: %s", again.how)
	}
}

// TestCopyTakesThePlaceOfACall: a copy waiting for a call that does not run runs in its place,
// and others wait for it.
func TestCopyTakesThePlaceOfACall(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		d := newDRC()
		from := newTape("10.0.0.1")
		proc := &Procedure{Idempotent: idempotent, NoOverlap: idempotent}
		call := func() (*Call, bool) {
			c := getCall(from)
			from.calls.tryEnter()
			c.proc, c.header.XID, c.XID = proc, 7, 7
			c.args.Reset(make([]byte, 200), nil)
			c.res.Reset(make([]byte, 0, 64))
			return c, d.admit(c, &from.peer)
		}
		first, runs := call()
		second, waits := call()
		if !runs || waits {
			t.Fatalf("admitted: %v, %v", runs, waits)
		}
		if next := d.abandon(first); next != second || first.dup != nil || second.dup == nil {
			t.Fatalf("idempotent %v: the copy does not take the place", idempotent)
		}
		if _, waits := call(); waits {
			t.Fatalf("idempotent %v: a copy runs beside the one that has taken the place", idempotent)
		}
		second.startReply(&oncrpc.ReplyHeader{})
		header := string(second.res.Bytes())
		second.res.Raw([]byte("done"))
		d.finish(second, true)
		if got := <-from.ends; got.how != "reply" || string(got.reply) != header+"done" {
			t.Errorf("idempotent %v: the other copy: %s %q, want the reply %q", idempotent, got.how, got.reply, header+"done")
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

// A call's reply is for its own user: another user on the machine, according to the credential or
// to the kernel, has its call executed, and a program may refuse it before that.
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
		defer from.cut()
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

// count returns how many calls wait or run.
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
