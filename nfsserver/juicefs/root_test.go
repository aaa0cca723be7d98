// The root's attributes are never invented, and one query serves all concurrent callers.

package juicefs

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
)

// A lateRoot is a metadata client whose service takes 0.3 s to return the root's attributes. After
// that time JuiceFS invents attributes.
type lateRoot struct{ counted }

func (c *lateRoot) GetAttr(ctx meta.Context, ino meta.Ino, a *meta.Attr) syscall.Errno {
	if ino != rootIno {
		return c.counted.GetAttr(ctx, ino, a)
	}
	*a = meta.Attr{Typ: meta.TypeDirectory, Mode: 0o777, Nlink: 2, Length: 4 << 10, Parent: rootIno, Full: true}
	return 0
}

func TestRootIsNotMadeUp(t *testing.T) {
	f := reopen(t, Local{Dir: newDir(t), UID: me.UID, GID: me.GID, Mode: 0o750})
	defer closeFS(t, f)
	is := attrOf(t, f, f.Root())
	if is.Mode != 0o750 || is.Ctime == (nfsserver.Time{}) {
		t.Errorf("%+v", is)
	}
	late := &lateRoot{counted{Meta: f.m}}
	f.files.m = late
	if a := attrOf(t, f, f.Root()); a != is || late.sets.Load() != 1 {
		t.Errorf("%+v, was %+v", a, is)
	}
	f.files.readOnly = true
	if _, err := f.Getattr(f.Root()); !errors.Is(err, nfsserver.ErrBusy) {
		t.Errorf("%v where nothing is to be changed", err)
	}
}

// TestRootOnRedisIsOneQuestion: on Redis the query takes no transaction. A read-only session has no
// script for the query, and queries as a volume in a directory does.
func TestRootOnRedisIsOneQuestion(t *testing.T) {
	tameLogs()
	_, url := juicefstest.Redis(t)
	juicefstest.Format(t, url, juicefstest.StartS3(t))
	for _, c := range []struct {
		readOnly   bool
		gets, sets int64
	}{{false, 0, 0}, {true, 1, 0}} {
		f := openShared(t, Options{Meta: url, ReadOnly: c.readOnly})
		asked := &counted{Meta: f.m}
		f.files.m = asked
		a := attrOf(t, f, f.Root())
		if a.Type != nfsserver.TypeDir || a.Mode != 0o777 {
			t.Errorf("%v with mode %o, want a directory with 777", a.Type, a.Mode)
		}
		if a.Ctime == (nfsserver.Time{}) {
			t.Error("no change time: the attributes are invented")
		}
		if a.Fileid != uint64(rootIno) {
			t.Errorf("fileid %d, want %d", a.Fileid, rootIno)
		}
		if gets, sets := asked.gets.Load(), asked.sets.Load(); gets != c.gets || sets != c.sets {
			t.Errorf("read-only %v: asked for attributes %d times and set them %d times beside", c.readOnly, gets, sets)
		}
		closeFS(t, f)
	}
}

// TestRootQuestionIsShared: callers that arrive during a query share the next one, and none gets
// the result of a query begun earlier.
func TestRootQuestionIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 10
		var r rootAttr
		var asked, came atomic.Int64
		release := make(chan struct{})
		ask := func(a *meta.Attr) syscall.Errno {
			a.Ctime = came.Load() // the number of callers before this query
			asked.Add(1)
			<-release
			return 0
		}
		var wg sync.WaitGroup
		get := func() {
			i := came.Add(1)
			wg.Go(func() {
				if a, no := r.get(ask); no != 0 || a.Ctime < i {
					t.Errorf("caller %d has the answer of %d, %v", i, a.Ctime, no)
				}
			})
			synctest.Wait()
		}
		for range 1 + many {
			get()
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%d questions at once", n)
		}
		close(release)
		wg.Wait()
		if n := asked.Load(); n != 2 {
			t.Errorf("%d questions for %d callers, want 2", n, 1+many)
		}
	})
}
