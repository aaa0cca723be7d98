// One file with many locks.

package nlm

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// BenchmarkManyLocksInOneFile takes and releases a lock in a file that has as many other locks as
// one client can have.
func BenchmarkManyLocksInOneFile(b *testing.B) {
	const many = 32 << 10
	o := &owner{host: &host{owners: map[ownerKey]*owner{}}, refs: 1}
	f := &file{svc: &Service{}}
	f.svc.ledger.init(defaultBounds(64))
	f.svc.waits.init()
	for i := range uint64(many - 1) {
		f.locks = append(f.locks, holding{span: span{2 * i, 2 * i}, owner: o, exclusive: true})
	}
	f.kernel = noKernel{}
	s := span{2 * many, 2 * many}
	b.ReportAllocs()
	for b.Loop() {
		if err := f.acquire(o, s, true); err != nil {
			b.Fatalf("acquire: %v", err)
		}
		if err := f.release(o, s); err != nil {
			b.Fatalf("release: %v", err)
		}
	}
}

// TestLocksAreCounted: a file's locks are charged one by one, however they are joined and split,
// although a request reads only a few.
func TestLocksAreCounted(t *testing.T) {
	h := &host{owners: map[ownerKey]*owner{}}
	owners := []*owner{{host: h, refs: 1}, {host: h, refs: 1}}
	f := &file{svc: &Service{}, kernel: noKernel{}}
	f.svc.ledger.init(defaultBounds(64))
	f.svc.waits.init()
	var want lockset // changed as a whole, as TestLocksetIsAsTheKernels does
	r := rand.New(rand.NewPCG(5, 6))
	for step := range 3000 {
		o, s, exclusive := owners[r.IntN(2)], randomSpan(r), r.IntN(2) == 0
		if r.IntN(3) == 0 {
			if err := f.release(o, s); err != nil {
				t.Fatalf("release: %v", err)
			}
			want.clear(o, s)
		} else if f.acquire(o, s, exclusive) == nil {
			want.set(o, s, exclusive)
		}
		checkShape(t, f.locks)
		if !slices.EqualFunc(f.locks, want, sameHolding) {
			t.Fatalf("step %d: %v, not %v", step, f.locks, want)
		}
		if got := f.svc.ledger.used.locks; got != len(f.locks) {
			t.Fatalf("step %d: %d locks are charged, there are %d", step, got, len(f.locks))
		}
	}
}

// sameHolding compares two holdings without the field since.
func sameHolding(a, b holding) bool {
	return a.span == b.span && a.owner == b.owner && a.exclusive == b.exclusive
}

// A noKernel permits all locks.
type noKernel struct{ nfsserver.FileLocks }

func (noKernel) Set(_, _ uint64, _ nfsserver.LockType) error { return nil }

// TestSearchesSeeNoLocksThatChange: a file's locks change in place, while searches from other files
// read them. The race detector checks the locking.
func TestSearchesSeeNoLocksThatChange(t *testing.T) {
	h, other := &host{owners: map[ownerKey]*owner{}}, &host{owners: map[ownerKey]*owner{}}
	holder, waiting := &owner{host: h, refs: 1}, &owner{host: other, refs: 1}
	f := &file{svc: &Service{}, kernel: noKernel{}}
	f.svc.ledger.init(defaultBounds(64))
	f.svc.waits.init()
	first := span{0, 9}
	if err := f.acquire(holder, first, true); err != nil {
		t.Fatalf("acquire: %v", err)
	}
	w := &waiter{file: f, span: first, owner: waiting, exclusive: true}
	var all sync.WaitGroup
	all.Go(func() {
		for i := range uint64(500) {
			f.mu.Lock()
			err := f.acquire(holder, span{20 + 2*i, 20 + 2*i}, true)
			if err == nil && i%2 == 0 {
				err = f.release(holder, span{20 + 2*i, 20 + 2*i})
			}
			f.mu.Unlock()
			if err != nil {
				t.Error(err)
			}
		}
	})
	for range 500 {
		if !f.svc.waits.wait(w, nil) {
			t.Error("a circle of one")
		}
		if list := f.svc.waits.wanting(); !list[other][h] {
			t.Errorf("who waits for whom: %v", list)
		}
		f.svc.waits.end(w)
	}
	all.Wait()
}
