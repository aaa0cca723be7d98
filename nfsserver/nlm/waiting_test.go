// Waiting clients: GRANTED, its results, and clients that stop waiting.

package nlm

import (
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// waiting returns the handle of a file that client a has locked while client b waits for it.
func waiting(t *testing.T) (r *rig, a, b *peer, fh []byte) {
	r = plainRig(t)
	r.newFile("f", 0o666)
	a, b = r.tcp("a", rootCred), r.rdma("b", rootCred)
	fh = a.file("/disk", "f")
	a.want("LOCK", a.lock(fh, 1, 0, 10, true), nlm4.Granted)
	b.want("LOCK that waits", b.block(fh, 2, 5, 10, true), nlm4.Blocked)
	b.want("again, as Linux asks every 30 s", b.block(fh, 2, 5, 10, true), nlm4.Blocked)
	return r, a, b, fh
}

// TestWaiterIsGranted: GRANTED has the arguments of the client's own call, and is sent once.
func TestWaiterIsGranted(t *testing.T) {
	r, a, b, fh := waiting(t)
	a.want("what is not in the way released", a.unlock(fh, 1, 0, 5), nlm4.Granted)
	select {
	case g := <-r.daemon.granted:
		t.Fatalf("GRANTED of what is still locked: %+v", g)
	case <-time.After(20 * time.Millisecond):
	}
	a.want("UNLOCK", a.unlock(fh, 1, 5, 5), nlm4.Granted)
	g := await(t, "GRANTED", r.daemon.granted)
	must.Equal(t, "GRANTED is exclusive", g.Exclusive, true)
	must.Equal(t, "process of GRANTED", g.Lock.Svid, 2)
	must.Equal(t, "owner of GRANTED", string(g.Lock.Owner), "owner")
	must.Equal(t, "begin of GRANTED", g.Lock.Offset, 5)
	must.Equal(t, "length of GRANTED", g.Lock.Length, 10)
	must.Become(t, "confirmed", func() bool { return r.count().waiters == 0 })
	a.want("now the other way round", a.lock(fh, 1, 14, 1, false), nlm4.Denied)
	b.want("UNLOCK", b.unlock(fh, 2, 5, 10), nlm4.Granted)
	if u := r.count(); u != (counts{}) {
		t.Errorf("used although nothing is locked: %+v", u)
	}
	if n := len(r.daemon.granted); n != 0 {
		t.Errorf("GRANTED %d times more", n)
	}
}

// lockedFiles returns how many files the service knows.
func (r *rig) lockedFiles() int {
	r.locks.mu.Lock()
	defer r.locks.mu.Unlock()
	return len(r.locks.files)
}

func (r *rig) count() counts {
	r.locks.ledger.mu.Lock()
	defer r.locks.ledger.mu.Unlock()
	return r.locks.ledger.used
}

// TestLostGrantIsRepeated: GRANTED is repeated until it is answered, and the port is queried before
// each repetition.
func TestLostGrantIsRepeated(t *testing.T) {
	r, a, b, fh := waiting(t)
	r.daemon.set(1, nlm4.Granted)
	a.want("UNLOCK", a.unlock(fh, 1, 0, 0), nlm4.Granted)
	await(t, "GRANTED after one that was lost", r.daemon.granted)
	must.Become(t, "confirmed", func() bool { return r.count().waiters == 0 })
	a.want("granted it is", a.lock(fh, 1, 5, 1, true), nlm4.Denied)
	r.daemon.mu.Lock()
	if r.daemon.asked < 2 {
		t.Errorf("the port mapper was asked %d times", r.daemon.asked)
	}
	r.daemon.mu.Unlock()
	b.want("UNLOCK", b.unlock(fh, 2, 0, 0), nlm4.Granted)
}

// TestGrantThatIsNotWanted: if a client refuses GRANTED, the lock goes to the next waiter, and the
// owner's earlier locks are restored.
func TestGrantThatIsNotWanted(t *testing.T) {
	r, a, b, fh := waiting(t)
	b.want("a part, shared", b.lock(fh, 2, 12, 1, false), nlm4.Granted)
	r.daemon.set(0, nlm4.Denied)
	a.want("UNLOCK", a.unlock(fh, 1, 0, 0), nlm4.Granted)
	await(t, "GRANTED", r.daemon.granted)
	must.Become(t, "taken back", func() bool { return r.count().waiters == 0 })
	a.want("what was given back", a.lock(fh, 1, 5, 7, true), nlm4.Granted)
	a.want("what b had before, shared", a.lock(fh, 1, 12, 1, false), nlm4.Granted)
	a.want("what b had before, exclusive", a.lock(fh, 1, 12, 1, true), nlm4.Denied)
}

// TestClientThatAsksInsteadOfListening: a client that repeats LOCK gets the lock with the reply,
// and then gets no GRANTED.
func TestClientThatAsksInsteadOfListening(t *testing.T) {
	r, a, b, fh := waiting(t)
	r.daemon.set(1<<30, nlm4.Granted)
	a.want("UNLOCK", a.unlock(fh, 1, 0, 0), nlm4.Granted)
	b.want("LOCK again", b.block(fh, 2, 5, 10, true), nlm4.Granted)
	must.Become(t, "not called any more", func() bool {
		r.locks.callers.mu.Lock()
		defer r.locks.callers.mu.Unlock()
		return len(r.locks.callers.hosts) == 0
	})
	a.want("b has it", a.lock(fh, 1, 5, 1, false), nlm4.Denied)
}

// TestUnlockOfUnconfirmedGrant: UNLOCK before GRANTED is answered ends the calls of GRANTED. The
// owner's earlier locks are not restored.
func TestUnlockOfUnconfirmedGrant(t *testing.T) {
	r, a, b, fh := waiting(t)
	b.want("a part, shared", b.lock(fh, 2, 12, 1, false), nlm4.Granted)
	r.daemon.set(1<<30, nlm4.Granted)
	a.want("UNLOCK", a.unlock(fh, 1, 0, 0), nlm4.Granted)
	b.want("UNLOCK of what is granted", b.unlock(fh, 2, 0, 0), nlm4.Granted)
	must.Become(t, "not called any more", func() bool {
		r.locks.callers.mu.Lock()
		defer r.locks.callers.mu.Unlock()
		return len(r.locks.callers.hosts) == 0
	})
	if u := r.count(); u != (counts{}) {
		t.Errorf("used although nothing is locked: %+v", u)
	}
}

// TestCancel: CANCEL removes a waiting request, before its grant or after it. Without a waiter
// CANCEL is denied.
func TestCancel(t *testing.T) {
	r, a, b, fh := waiting(t)
	b.want("CANCEL of another range", b.cancel(fh, 2, 5, 9, true), nlm4.Denied)
	b.want("CANCEL", b.cancel(fh, 2, 5, 10, true), nlm4.Granted)
	b.want("CANCEL again", b.cancel(fh, 2, 5, 10, true), nlm4.Denied)
	a.want("UNLOCK", a.unlock(fh, 1, 0, 0), nlm4.Granted)
	a.want("nobody has it", a.lock(fh, 1, 0, 0, true), nlm4.Granted)
	r.daemon.set(1<<30, nlm4.Granted)
	b.want("LOCK that waits", b.block(fh, 2, 5, 10, true), nlm4.Blocked)
	a.want("UNLOCK", a.unlock(fh, 1, 0, 0), nlm4.Granted)
	b.want("CANCEL of what is granted", b.cancel(fh, 2, 5, 10, true), nlm4.Granted)
	a.want("nobody has it", a.lock(fh, 1, 0, 0, true), nlm4.Granted)
}

// TestOldestIsServedFirst: requests are granted in order of arrival, and compatible requests
// together.
func TestOldestIsServedFirst(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	a := r.tcp("a", rootCred)
	fh := a.file("/disk", "f")
	a.want("LOCK", a.lock(fh, 1, 0, 0, true), nlm4.Granted)
	for svid, exclusive := range []bool{2: true, 3: false, 4: false, 5: true} {
		if svid >= 2 {
			a.want("LOCK that waits", a.block(fh, int32(svid), 0, 0, exclusive), nlm4.Blocked)
		}
	}
	a.want("UNLOCK", a.unlock(fh, 1, 0, 0), nlm4.Granted)
	next := func() int32 { return await(t, "GRANTED", r.daemon.granted).Lock.Svid }
	if n := next(); n != 2 {
		t.Errorf("first %d", n)
	}
	a.want("UNLOCK", a.unlock(fh, 2, 0, 0), nlm4.Granted)
	if n, m := next(), next(); n != 3 || m != 4 {
		t.Errorf("then %d and %d", n, m)
	}
	a.want("UNLOCK", a.unlock(fh, 3, 0, 0), nlm4.Granted)
	a.want("UNLOCK", a.unlock(fh, 4, 0, 0), nlm4.Granted)
	if n := next(); n != 5 {
		t.Errorf("last %d", n)
	}
}

// TestLocksExclude: owners lock, wait for GRANTED if they must, and unlock. They never hold the
// lock together.
func TestLocksExclude(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	const owners, rounds = 6, 8
	wake := make([]chan struct{}, owners)
	for i := range wake {
		wake[i] = make(chan struct{}, rounds)
	}
	over := make(chan struct{})
	go func() {
		for {
			select {
			case g := <-r.daemon.granted:
				wake[g.Lock.Svid] <- struct{}{}
			case <-over:
				return
			}
		}
	}()
	var mu sync.Mutex
	inside, most := 0, 0
	enter := func(d int) {
		mu.Lock()
		defer mu.Unlock()
		inside += d
		most = max(most, inside)
	}
	var all sync.WaitGroup
	for i := range owners {
		p := r.tcp("a", rootCred)
		if i%2 == 0 {
			p = r.rdma("b", rootCred)
		}
		fh := p.file("/disk", "f")
		all.Go(func() {
			for range rounds {
				if st := p.block(fh, int32(i), 0, 1, true); st == nlm4.Blocked {
					select {
					case <-wake[i]:
					case <-time.After(patience):
						p.Errorf("owner %d was never granted its lock", i)
						return
					}
				} else if st != nlm4.Granted {
					p.Errorf("LOCK: %v", st)
				}
				enter(1)
				enter(-1)
				p.want("UNLOCK", p.unlock(fh, int32(i), 0, 1), nlm4.Granted)
			}
		})
	}
	all.Wait()
	close(over)
	if most != 1 {
		t.Errorf("%d inside at once", most)
	}
}
