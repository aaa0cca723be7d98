// The commits of JuiceFS's writer: at which time, and which service has refused the bytes of a file, for the writer says EIO of both.

package juicefs

import (
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// commits is a metadata client that commits at the times which clients have been told, and
// remembers the files whose bytes it could not commit, though the object storage has them.
type commits struct {
	meta.Meta
	timeOf func(ino meta.Ino, at nfsserver.Time) nfsserver.Time
	mu     sync.Mutex
	failed map[meta.Ino]bool // guarded by mu
}

func newCommits(m meta.Meta, timeOf func(meta.Ino, nfsserver.Time) nfsserver.Time) *commits {
	return &commits{Meta: m, timeOf: timeOf, failed: map[meta.Ino]bool{}}
}

// Write commits a slice of a file. JuiceFS's time of it is that of the writer's last copy; ours,
// which getattr has told, is a moment later, and to set it afterwards would be a second
// transaction.
func (c *commits) Write(ctx meta.Context, ino meta.Ino, chunk, off uint32, s meta.Slice, at time.Time) syscall.Errno {
	mtime := c.timeOf(ino, asTime(at.Unix(), uint32(at.Nanosecond())))
	no := c.Meta.Write(ctx, ino, chunk, off, s, time.Unix(mtime.Sec, int64(mtime.Nsec)))
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
