// Owners that wait for one another.

package nlm

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// TestDeadlockIsRefused: only the client whose request would close a circle gets an error. This is
// tested with two and three clients, over two files. The others get their locks once that client
// continues.
func TestDeadlockIsRefused(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	r.newFile("g", 0o666)
	a, b, c := r.tcp("a", rootCred), r.rdma("b", rootCred), r.tcp("c", rootCred)
	f, g := a.file("/disk", "f"), a.file("/disk", "g")
	a.want("LOCK", a.lock(f, 1, 0, 10, true), nlm4.Granted)
	b.want("LOCK", b.lock(g, 2, 0, 10, false), nlm4.Granted)
	c.want("LOCK", c.lock(g, 3, 20, 10, true), nlm4.Granted)
	a.want("one waits for the other", a.block(g, 1, 5, 20, true), nlm4.Blocked)
	b.want("who does not wait", b.lock(f, 2, 0, 1, true), nlm4.Denied)
	b.want("two wait for each other", b.block(f, 2, 0, 1, true), nlm4.Deadlock)
	b.want("CANCEL of what does not wait", b.cancel(f, 2, 0, 1, true), nlm4.Denied)
	b.want("a process of the same client that has nothing", b.block(f, 9, 0, 1, true), nlm4.Blocked)
	c.want("what nobody waits for", c.block(f, 3, 50, 1, true), nlm4.Granted)
	c.want("two wait for each other, of three", c.block(f, 3, 9, 1, false), nlm4.Deadlock)
	b.want("UNLOCK", b.unlock(g, 2, 0, 0), nlm4.Granted)
	c.want("UNLOCK", c.unlock(g, 3, 0, 0), nlm4.Granted)
	if got := await(t, "GRANTED", r.daemon.granted); got.Lock.Svid != 1 {
		t.Errorf("GRANTED %+v", got)
	}
	must.Become(t, "confirmed", func() bool { return r.count().waiters == 1 })
	b.want("who waits for one that has all", b.block(f, 2, 0, 1, true), nlm4.Blocked)
	a.want("UNLOCK", a.unlock(f, 1, 0, 0), nlm4.Granted)
	await(t, "GRANTED", r.daemon.granted)
}

// TestSharesThatBothWantAlone: two clients have a shared lock, and each waits until the other
// releases it.
func TestSharesThatBothWantAlone(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	a, b := r.tcp("a", rootCred), r.rdma("b", rootCred)
	fh := a.file("/disk", "f")
	a.want("LOCK", a.lock(fh, 1, 0, 10, false), nlm4.Granted)
	b.want("LOCK", b.lock(fh, 1, 0, 10, false), nlm4.Granted)
	a.want("alone", a.block(fh, 1, 0, 10, true), nlm4.Blocked)
	b.want("alone, too", b.block(fh, 1, 0, 10, true), nlm4.Deadlock)
	b.want("the share is there", b.unlock(fh, 1, 0, 10), nlm4.Granted)
	if got := await(t, "GRANTED", r.daemon.granted); string(got.Lock.Caller) != "a" || !got.Exclusive {
		t.Errorf("GRANTED %+v", got)
	}
}

// TestWaitersThatLeaveAreInNoCircle: a waiter that has given up, or whose client's locks were
// freed, closes no circle.
func TestWaitersThatLeaveAreInNoCircle(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	a, b := r.tcp("a", rootCred), r.rdma("b", rootCred)
	fh := a.file("/disk", "f")
	a.want("LOCK", a.lock(fh, 1, 0, 1, true), nlm4.Granted)
	b.want("LOCK", b.lock(fh, 1, 1, 1, true), nlm4.Granted)
	a.want("waits", a.block(fh, 1, 1, 1, true), nlm4.Blocked)
	a.want("CANCEL", a.cancel(fh, 1, 1, 1, true), nlm4.Granted)
	b.want("who waits alone", b.block(fh, 1, 0, 1, true), nlm4.Blocked)
	a.want("now the other closes the circle", a.block(fh, 1, 1, 1, true), nlm4.Deadlock)
	b.do(nlm4.Program, nlm4.Version, nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte("b")}, void{})
	b.want("LOCK", b.lock(fh, 1, 5, 1, true), nlm4.Granted)
	a.want("who waits alone", a.block(fh, 1, 5, 1, true), nlm4.Blocked)
	r.locks.waits.mu.Lock()
	defer r.locks.waits.mu.Unlock()
	if n := len(r.locks.waits.waits); n != 1 {
		t.Errorf("%d owners wait, want 1", n)
	}
}

// TestCirclesOfManyEndTheSearch: in a row of owners each waits for the next, and the last closes
// the circle. A circle is found in a row of 100, but a row of 400 is too long for one search.
func TestCirclesOfManyEndTheSearch(t *testing.T) {
	for _, c := range []struct {
		owners int
		want   nlm4.Status
	}{{100, nlm4.Deadlock}, {400, nlm4.Blocked}} {
		t.Run(fmt.Sprint(c.owners), func(t *testing.T) {
			r := plainRig(t)
			r.newFile("f", 0o666)
			p := r.tcp("a", rootCred)
			fh := p.file("/disk", "f")
			for i := range c.owners {
				p.want("LOCK", p.lock(fh, int32(i), uint64(i), 1, true), nlm4.Granted)
			}
			for i := range c.owners - 1 {
				p.want("waits for the next", p.block(fh, int32(i), uint64(i+1), 1, true), nlm4.Blocked)
			}
			p.want("waits for the first", p.block(fh, int32(c.owners-1), 0, 1, true), c.want)
		})
	}
}

// TestConcurrentDeadlockRefusesOne: two requests close a circle at the same time, on two files, and
// one is refused.
func TestConcurrentDeadlockRefusesOne(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	r.newFile("g", 0o666)
	peers := []*peer{r.tcp("a", rootCred), r.rdma("b", rootCred)}
	files := [][]byte{peers[0].file("/disk", "f"), peers[0].file("/disk", "g")}
	for round := range 50 {
		svid := int32(round)
		var got [2]nlm4.Status
		var both sync.WaitGroup
		for i, p := range peers {
			p.want("LOCK", p.lock(files[i], svid, 0, 0, true), nlm4.Granted)
		}
		for i, p := range peers {
			both.Go(func() { got[i] = p.block(files[1-i], svid, 0, 0, true) })
		}
		both.Wait()
		if got != [2]nlm4.Status{nlm4.Blocked, nlm4.Deadlock} && got != [2]nlm4.Status{nlm4.Deadlock, nlm4.Blocked} {
			t.Fatalf("round %d: %v", round, got)
		}
		for _, p := range peers {
			p.do(nlm4.Program, nlm4.Version, nlm4.ProcFreeAll, &nlm4.Notify{Name: []byte(p.name)}, void{})
		}
	}
}
