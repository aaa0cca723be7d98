// Idle files, and files that take long to store.

package juicefs

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// isOpen reports whether a file is open.
func isOpen(f *FS, ino meta.Ino) bool {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	return f.files.open[ino] != nil
}

// TestIdleFilesAreClosed: one file waits for the object storage. Meanwhile files that have nothing
// to store are closed, and so are files whose objects the storage has accepted.
func TestIdleFilesAreClosed(t *testing.T) {
	f, _, _, s3 := onRedis(t)
	inode := func(r nfsserver.Ref) meta.Ino {
		n, err := f.load(&r)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		return n.ino
	}
	stored := map[string]meta.Ino{}
	for i := range 20 {
		name := fmt.Sprint("read-", i)
		r, _ := create(t, f, f.Root(), name)
		put(t, f, r, []byte("stored"), 0)
		commit(t, f, r)
		stored[name] = inode(r)
	}
	var puts atomic.Int32
	first, release := make(chan struct{}), make(chan struct{})
	s3.Break(func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodPut && puts.Add(1) == 1 {
			close(first)
			<-release
		}
		return false
	})
	slow, _ := create(t, f, f.Root(), "slow")
	put(t, f, slow, []byte("slow"), 0)
	var all sync.WaitGroup
	defer all.Wait()
	defer close(release)
	later := time.Now().Add(2 * idleTime)
	sweep := func() {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.files.sweep(later, &all)
		}()
		select {
		case <-done:
		case <-time.After(deadline):
			t.Fatal("the sweeper waits for one file")
		}
	}
	sweep() // closes the slow file and all others
	<-first
	for i := range 5 {
		name := fmt.Sprint("written-", i)
		r, _ := create(t, f, f.Root(), name)
		put(t, f, r, []byte("at once"), 0)
		stored[name] = inode(r)
	}
	for i := range 20 { // opens each file again, for the next sweep
		name := fmt.Sprint("read-", i)
		if n, err := f.ReadAt(me, refOf(t, f, name), make([]byte, 1), 0); n != 1 || err != nil {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
	}
	sweep()
	for name, ino := range stored {
		for began := time.Now(); isOpen(f, ino); time.Sleep(time.Millisecond) {
			if time.Since(began) > deadline {
				t.Fatalf("%s is not closed", name)
			}
		}
	}
	if !isOpen(f, inode(slow)) {
		t.Error("what is not stored has been closed")
	}
}

// refOf looks up a name in the root, and returns its Ref.
func refOf(t *testing.T, f *FS, name string) nfsserver.Ref {
	t.Helper()
	r, _, err := f.Lookup(me, f.Root(), name)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	return r
}
