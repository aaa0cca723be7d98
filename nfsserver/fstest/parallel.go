// Checks with many callers at once; run them under the race detector.

package fstest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

var parallelChecks = []check{
	{"parallel/one winner", checkOneWinner},
	{"parallel/names", checkParallelNames},
	{"parallel/data", checkParallelData},
	{"parallel/rename", checkParallelRename},
	{"parallel/remove under use", checkRemoveUnderUse},
}

// together runs f n times concurrently.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func checkOneWinner(t *tree) {
	for round := range 20 {
		name := fmt.Sprint("f", round)
		var won atomic.Int32
		together(8, func(int) {
			if _, _, err := t.Create(t.me, t.root, name, mode(0o600)); err == nil {
				won.Add(1)
			}
		})
		eq(t, "who made it", won.Load(), 1)
		won.Store(0)
		together(8, func(int) {
			if t.Remove(t.me, t.root, name) == nil {
				won.Add(1)
			}
		})
		eq(t, "who removed it", won.Load(), 1)
	}
}

func checkParallelNames(t *tree) {
	d := t.dir(t.root, "d")
	together(8, func(i int) {
		for k := range 40 {
			name := fmt.Sprintf("%d-%d", i, k)
			if _, _, err := t.Create(t.me, d, name, mode(0o600)); err != nil {
				t.Errorf("Create: %v", err)
			}
			if _, err := t.ReadDir(t.me, d, 0, true, func(*nfsserver.Dirent) bool { return true }); err != nil {
				t.Errorf("ReadDir: %v", err)
			}
			if k%2 == 0 {
				if err := t.Remove(t.me, d, name); err != nil {
					t.Errorf("Remove: %v", err)
				}
			}
		}
	})
	eq(t, "names left", len(t.names(d, 0, false)), 8*20+2)
}

// checkParallelData: writers with separate bytes share pages.
func checkParallelData(t *tree) {
	f := t.file(t.root, "f")
	const writers, size, each = 8, 1000, 50
	together(writers, func(i int) {
		b := make([]byte, size)
		for j := range b {
			b[j] = byte(i + 1)
		}
		for k := range each {
			off := uint64((k*writers + i) * size)
			if n, err := t.WriteAt(t.me, f, b, off); n != size || err != nil {
				t.Errorf("WriteAt: %d, %v", n, err)
			}
			got := make([]byte, size)
			if n, err := t.ReadAt(t.me, f, got, off); n != size || err != nil || !slices.Equal(got, b) {
				t.Errorf("ReadAt: %d, %v, or others' bytes", n, err)
			}
			t.Getattr(f)
		}
	})
	eq(t, "size", t.attr(f).Size, writers*size*each)
	all := t.get(f, writers*size*each, 0)
	for i := range all {
		if want := byte(i/size%writers + 1); all[i] != want {
			t.Fatalf("byte %d is of writer %d, want %d", i, all[i], want)
		}
	}
}

// checkParallelRename: a name that is replaced all the time always exists.
func checkParallelRename(t *tree) {
	t.file(t.root, "target")
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			if _, _, err := t.Lookup(t.me, t.root, "target"); err != nil {
				t.Errorf("Lookup while it is replaced: %v", err)
				return
			}
		}
	})
	together(4, func(i int) {
		for k := range 50 {
			name := fmt.Sprintf("tmp-%d-%d", i, k)
			if _, _, err := t.Create(t.me, t.root, name, mode(0o600)); err != nil {
				t.Errorf("Create: %v", err)
			}
			if err := t.Rename(t.me, t.root, name, t.root, "target"); err != nil {
				t.Errorf("Rename: %v", err)
			}
		}
	})
	done.Store(true)
	wg.Wait()
	eq(t, "names", len(t.names(t.root, 0, false)), 3)
}

// checkRemoveUnderUse: a file removed during reads and writes is stale, without worse effects.
func checkRemoveUnderUse(t *tree) {
	for range 20 {
		f := t.file(t.root, "f")
		together(4, func(i int) {
			b := make([]byte, 5000)
			for range 10 {
				if i == 0 {
					t.Remove(t.me, t.root, "f")
				}
				t.WriteAt(t.me, f, b, 0)
				t.ReadAt(t.me, f, b, 0)
				t.Sync(f, true)
				t.Getattr(f)
			}
		})
		t.stale(f)
	}
}
