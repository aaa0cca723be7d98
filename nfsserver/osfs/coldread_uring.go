// An FS's ring: opened when a read has to wait, closed after a time without such reads.

package osfs

import (
	"errors"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/uring"
	"golang.org/x/sys/unix"
)

// A coldRing opens, shares and closes an FS's ring.
type coldRing struct {
	open func() (*uring.Ring, error) // set once: uring.Open; tests replace it

	mu     sync.Mutex // guards the fields below
	ring   *uring.Ring
	none   bool // the kernel has no rings, or does not allow them
	users  int
	clock  *time.Timer   // calls sweep
	closed chan struct{} // receives a value when an idle ring is closed; nil except in tests
}

// take returns the ring, or nil if there is none. The caller gives the ring back by put.
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

// put gives the ring back. The last user's put starts the timer.
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

// sweep closes an unused ring. If the ring was used after the timer started, put has restarted the
// timer or will do so.
func (c *coldRing) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users > 0 || c.ring == nil {
		return
	}
	c.clock.Stop() // if Close calls sweep, the timer still runs
	c.ring.Close() // no read is under way
	c.ring = nil
	if c.closed != nil {
		c.closed <- struct{}{}
	}
}
