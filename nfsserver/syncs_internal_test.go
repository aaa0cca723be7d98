// Syncs that several calls share.

package nfsserver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// Calls that arrive during a sync share the next sync, and its error. That sync includes attributes
// if one of these calls needs them.
func TestSyncsAreShared(t *testing.T) {
	var tab syncTable
	key := Ref{n: 20}
	begun, goOn := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := tab.sync(key, true, func(bool) error { close(begun); <-goOn; return nil }); err != nil {
			t.Errorf("sync: %v", err)
		}
	})
	<-begun
	var runs atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			err := tab.sync(key, i > 0, func(dataOnly bool) error {
				if runs.Add(1); dataOnly {
					t.Error("only the data was synced")
				}
				return syscall.EIO
			})
			if err != syscall.EIO {
				t.Errorf("%v", err)
			}
		})
	}
	for calls := 0; calls < 9; runtime.Gosched() {
		tab.mu.Lock()
		calls = tab.busy[key].calls
		tab.mu.Unlock()
	}
	close(goOn)
	wg.Wait()
	if n := runs.Load(); n != 1 {
		t.Errorf("%d syncs, want one for all", n)
	}
	if len(tab.busy) != 0 {
		t.Error("an object without running syncs is kept")
	}
	if err := tab.sync(key, true, func(bool) error { return nil }); err != nil {
		t.Errorf("an old error: %v", err)
	}
}

// A panic in run ends only its own call, and the waiting calls continue.
func TestSyncPanics(t *testing.T) {
	var tab syncTable
	func() {
		defer func() { recover() }()
		tab.sync(Ref{}, true, func(bool) error { panic("disk") })
	}()
	if err := tab.sync(Ref{}, true, func(bool) error { return nil }); err != nil || len(tab.busy) != 0 {
		t.Errorf("%v", err)
	}
}
