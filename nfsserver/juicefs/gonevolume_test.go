// Checks of volumes whose metadata service does not respond.

package juicefs

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
)

// A silentMeta is a metadata service that does not answer until release is closed.
type silentMeta struct {
	asked, release chan struct{}
	answered       atomic.Bool
}

func (m *silentMeta) settings() (*meta.Format, error) {
	close(m.asked)
	<-m.release
	m.answered.Store(true)
	return nil, errors.New("timeout")
}

// TestVolumeChecksDelayNoOthers: while a volume whose metadata service does not respond is checked,
// others are opened, used and closed. The checked volume itself is closed after the check.
func TestVolumeChecksDelayNoOthers(t *testing.T) {
	m := &silentMeta{asked: make(chan struct{}), release: make(chan struct{})}
	silent := &FS{settings: m.settings}
	opened.add(silent)
	unknown := make(chan int, 1)
	go func() { unknown <- opened.check() }()
	<-m.asked
	others, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(others)
		f := openNew(t, Local{})
		if _, err := f.Getattr(f.Root()); err != nil {
			t.Errorf("Getattr: %v", err)
		}
		closeFS(t, f)
	}()
	select {
	case <-others:
	case <-time.After(deadline):
		t.Error("a volume waits for the service of another one")
	}
	go func() {
		defer close(closed)
		opened.remove(silent)
		if !m.answered.Load() {
			t.Error("a volume is closed while it is looked for")
		}
	}()
	inSet := func() bool {
		opened.mu.Lock()
		defer opened.mu.Unlock()
		return opened.set[silent]
	}
	for began := time.Now(); inSet() && time.Since(began) < deadline; {
		time.Sleep(time.Millisecond)
	}
	close(m.release)
	<-closed
	if n := <-unknown; n != 0 {
		t.Errorf("%d volumes are looked for again, though closed", n)
	}
}
