// Commits by JuiceFS's writer: their times, and the service that refused them. The writer reports
// EIO for both services.

package juicefs

import (
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// commits is a metadata client that commits with the times reported to clients. It remembers files
// after a failed commit of bytes that the object storage has.
type commits struct {
	meta.Meta
	timeOf func(ino meta.Ino, at nfsserver.Time) nfsserver.Time
	mu     sync.Mutex
	failed map[meta.Ino]bool // guarded by mu
}

func newCommits(m meta.Meta, timeOf func(meta.Ino, nfsserver.Time) nfsserver.Time) *commits {
	return &commits{Meta: m, timeOf: timeOf, failed: map[meta.Ino]bool{}}
}

// Write commits a file's slice. at is when JuiceFS's writer last copied bytes. If getattr has
// reported a time a moment later, the commit sets that one: setting it afterwards would be a second
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

// take reports whether a commit of the file has failed since the last call.
func (c *commits) take(ino meta.Ino) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := c.failed[ino]
	delete(c.failed, ino)
	return failed
}
