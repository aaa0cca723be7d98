// The sweeper: lets go of files that somebody else has deleted.

package osfs

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sweepEvery bounds how long a file that was deleted behind our back keeps its
// disk space because it is still open here.
const sweepEvery = 20 * time.Second

type sweeper struct {
	quit chan struct{}
	done sync.WaitGroup
}

func (s *sweeper) start(f *FS) {
	s.quit = make(chan struct{})
	s.done.Go(func() { s.loop(f) })
}

func (s *sweeper) loop(f *FS) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-t.C:
			f.dropDeleted()
		}
	}
}

func (s *sweeper) stop() {
	close(s.quit)
	s.done.Wait()
}

// dropDeleted drops all nodes that have no name left.
func (f *FS) dropDeleted() {
	for _, n := range f.cache.all() {
		f.dropIfGone(n)
		f.cache.release(n)
	}
}

// dropIfGone drops n if it has no name left.
func (f *FS) dropIfGone(n *node) bool {
	var st unix.Stat_t
	if err := unix.Fstat(n.fd(), &st); err == nil && st.Nlink > 0 {
		return false
	}
	f.cache.drop(n)
	return true
}
