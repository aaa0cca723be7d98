// Times of commits: clients of other servers keep data that they have read until the file's time
// changes.

package juicefs

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A timed is a metadata client that records the times of commits.
type timed struct {
	meta.Meta
	mu sync.Mutex
	at []nfsserver.Time // the times, guarded by mu
}

func (c *timed) Write(ctx meta.Context, ino meta.Ino, chunk, off uint32, s meta.Slice, at time.Time) syscall.Errno {
	c.mu.Lock()
	c.at = append(c.at, asTime(at.Unix(), uint32(at.Nanosecond())))
	c.mu.Unlock()
	return c.Meta.Write(ctx, ino, chunk, off, s, at)
}

// TestEachCommitHasItsTime: a reader at another server, between two commits of a file, notices the
// second commit by its time. The time reported last stays the time that getattr returns.
func TestEachCommitHasItsTime(t *testing.T) {
	const chunk = meta.ChunkSize
	for name, c := range map[string]struct {
		offs []uint64
		size int
	}{
		"two slices of a chunk":       {[]uint64{0, chunk / 2}, 10},
		"the first is written last":   {[]uint64{0, chunk / 2, 10}, 10},
		"one WRITE of two chunks":     {[]uint64{chunk - 5}, 10},
		"two chunks, the first twice": {[]uint64{0, chunk, 10}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			f := openNew(t, Local{})
			defer closeFS(t, f)
			r, _ := create(t, f, f.Root(), "f")
			seen := &timed{Meta: f.files.commits.Meta}
			f.files.commits.Meta = seen
			for _, off := range c.offs {
				put(t, f, r, make([]byte, c.size), off)
			}
			commit(t, f, r)
			a := attrOf(t, f, r)
			seen.mu.Lock()
			defer seen.mu.Unlock()
			if len(seen.at) < 2 {
				t.Fatalf("%d commits", len(seen.at))
			}
			for i, at := range seen.at {
				if slices.Contains(seen.at[:i], at) {
					t.Errorf("two of the commits %v have one time", seen.at)
				}
				if i < len(seen.at)-1 && at == a.Mtime {
					t.Errorf("an early one of the commits %v has the last time, %v", seen.at, a.Mtime)
				}
			}
		})
	}
}

// A committing is a metadata client that requests a commit's time at each query for attributes.
type committing struct {
	meta.Meta
	timeOf func()
	wg     sync.WaitGroup
}

func (c *committing) GetAttr(ctx meta.Context, ino meta.Ino, a *meta.Attr) syscall.Errno {
	c.wg.Go(c.timeOf)
	return c.Meta.GetAttr(ctx, ino, a)
}

// TestCommitsWhileFilesAreClosed: JuiceFS's writer commits one file by itself, while Close closes
// others.
func TestCommitsWhileFilesAreClosed(t *testing.T) {
	f := openNew(t, Local{})
	for _, name := range []string{"a", "b", "c"} {
		r, _ := create(t, f, f.Root(), name)
		put(t, f, r, []byte("content"), 0)
	}
	c := &committing{Meta: f.files.m, timeOf: func() {
		// a file that is not open keeps the time of the commit
		if at := nfsserver.Now(); f.files.commitTime(rootIno, at) != at {
			t.Error("a commit has another time")
		}
	}}
	f.files.m = c
	closeFS(t, f)
	c.wg.Wait()
}
