// The ring of an FS: made when a read has to wait, ended when none has for some time.

package osfs

import (
	"errors"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/uring"
	"golang.org/x/sys/unix"
)

// A coldRing is the ring of an FS, while there is one.
type coldRing struct {
	open func() (*uring.Ring, error) // set once: uring.Open, but for tests

	mu     sync.Mutex // guards all that follows
	ring   *uring.Ring
	none   bool // there can be none, now or later
	users  int
	clock  *time.Timer   // calls sweep
	closed chan struct{} // not nil: told when an idle ring has been ended; for tests
}

// take returns the ring, which put gives back; nil where there is none.
func (c *coldRing) take() *uring.Ring {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ring == nil && !c.none {
		var err error
		if c.ring, err = c.open(); err != nil {
			short := errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
			c.ring, c.none = nil, !short
		}
	}
	if c.ring == nil {
		return nil
	}
	c.users++
	return c.ring
}

// put ends what take began.
func (c *coldRing) put() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	if c.clock == nil {
		c.clock = time.AfterFunc(ringIdle, c.sweep)
	} else {
		c.clock.Reset(ringIdle)
	}
}

// sweep ends a ring that nobody uses. Where it has been used since the clock was started, the clock
// has been started again, or will be.
func (c *coldRing) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users > 0 || c.ring == nil {
		return
	}
	c.clock.Stop() // of a sweep that Close has called
	c.ring.Close() // no read is under way
	c.ring = nil
	if c.closed != nil {
		c.closed <- struct{}{}
	}
}
