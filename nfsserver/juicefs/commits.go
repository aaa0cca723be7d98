// Which service has refused the bytes of a file: JuiceFS's writer says EIO of both.

package juicefs

import (
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
)

// commits is a metadata client that remembers the files whose bytes it could not commit, though the object storage has them.
type commits struct {
	meta.Meta
	mu     sync.Mutex
	failed map[meta.Ino]bool // guarded by mu
}

func newCommits(m meta.Meta) *commits { return &commits{Meta: m, failed: map[meta.Ino]bool{}} }

// Write commits a slice of a file.
func (c *commits) Write(ctx meta.Context, ino meta.Ino, chunk, off uint32, s meta.Slice, at time.Time) syscall.Errno {
	no := c.Meta.Write(ctx, ino, chunk, off, s, at)
	if no == syscall.EIO || no == syscall.ETIMEDOUT {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed[ino] = true
	}
	return no
}

// take reports whether a commit of the file has failed since it was last asked.
func (c *commits) take(ino meta.Ino) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := c.failed[ino]
	delete(c.failed, ino)
	return failed
}
