// The table of open files, and attributes as they are with what is buffered.

package juicefs

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juicedata/juicefs/pkg/chunk"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/vfs"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

const (
	// idleTime is how long a file stays open without a call; maxOpen is how many stay open without one.
	idleTime = 10 * time.Second
	maxOpen  = 10000
	// sweepEvery is how often idle files are looked for.
	sweepEvery = time.Second
	// storeAtOnce is how many files are stored at once to be closed.
	storeAtOnce = 16
)

// files are the open files of an FS.
type files struct {
	// Set once.
	m        meta.Meta
	readOnly bool
	room     *room
	commits  *commits
	reader   vfs.DataReader
	writer   vfs.DataWriter
	stop     chan struct{}
	swept    chan struct{} // closed by the sweeper's end
	storing  chan struct{} // has room for who stores a file that is idle, or to be closed with all

	root rootAttr

	mu     sync.Mutex // guards open, closed, and users and idle of the files
	open   map[meta.Ino]*file
	closed uint64 // how many have been
}

// start makes the buffers, and has idle files closed until close.
func (t *files) start(m meta.Meta, store chunk.ChunkStore, conf *vfs.Config) {
	t.m, t.readOnly, t.open = m, conf.Meta.ReadOnly, map[meta.Ino]*file{}
	t.reader = vfs.NewDataReader(conf, m, store)
	t.commits = newCommits(m, t.commitTime)
	t.writer = vfs.NewDataWriter(conf, t.commits, store, t.reader)
	t.stop, t.swept, t.storing = make(chan struct{}), make(chan struct{}), make(chan struct{}, storeAtOnce)
	go t.sweeper()
}

// use returns the open file of an inode; release follows.
func (t *files) use(ino meta.Ino) *file {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.open[ino]
	if o == nil {
		o = &file{set: t, ino: ino}
		t.open[ino] = o
	}
	o.users++
	return o
}

// useOpen is use of a file that is open already; nil: it is not.
func (t *files) useOpen(ino meta.Ino) *file {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.open[ino]
	if o != nil {
		o.users++
	}
	return o
}

// commitTime is the time of a commit of a file, whose bytes were copied last at the time at.
func (t *files) commitTime(ino meta.Ino, at nfsserver.Time) nfsserver.Time {
	t.mu.Lock()
	o := t.open[ino]
	t.mu.Unlock()
	if o == nil {
		return at
	}
	return o.commitTime(at)
}

func (t *files) release(o *file) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.users--; o.users == 0 {
		o.idle = time.Now()
	}
}

// raw asks for the attributes that the metadata has.
func (t *files) raw(ino meta.Ino) (a meta.Attr, err error) {
	if ino == rootIno {
		return t.rawRoot()
	}
	if no := t.m.GetAttr(system, ino, &a); no != 0 {
		return a, failedOn(no)
	}
	return a, t.hideTrash(ino, &a)
}

// hideTrash takes the names that are in the trash from the count; what has no other is gone.
func (t *files) hideTrash(ino meta.Ino, a *meta.Attr) error {
	if a.Parent.IsTrash() || a.Nlink == 0 {
		return nfsserver.ErrStale
	}
	if a.Parent != 0 || ino == rootIno || !t.hasTrash() {
		return nil
	}
	a.Nlink = 0
	for dir, names := range t.m.GetParents(system, ino) {
		if !dir.IsTrash() {
			a.Nlink += uint32(names)
		}
	}
	if a.Nlink == 0 {
		return nfsserver.ErrStale
	}
	return nil
}

// hasTrash reports whether names that are removed go to the trash, which `juicefs config` changes at any time.
func (t *files) hasTrash() bool { return t.m.GetFormat().TrashDays > 0 }

// getattr returns the attributes as they will be when what is buffered has been committed, and the stamp of those that
// the metadata has.
func (t *files) getattr(ino meta.Ino) (a meta.Attr, is stamp, err error) {
	o := t.useOpen(ino)
	if o == nil {
		a, err = t.raw(ino)
		return a, stampOf(&a), err
	}
	defer t.release(o)
	for {
		// In this order: what becomes clean after the look at it is in the metadata that is asked for next.
		p := o.pending()
		a, err = t.raw(ino)
		is = stampOf(&a)
		if err != nil || !p.told {
			return a, is, err
		}
		if o.pending().epoch != p.epoch {
			continue // committed, or cut, meanwhile: the two would not be of one moment
		}
		p.over(&a)
		return a, is, nil
	}
}

// closes is how many files have been closed.
func (t *files) closes() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// found is getattr of what a name led to, with the attributes a that came with the name, after
// closed files had been closed. They are those that getattr would tell, without asking a second
// time, where the file is not open and was not meanwhile; a service that has lost them gives some
// of them.
func (t *files) found(ino meta.Ino, a meta.Attr, closed uint64) (meta.Attr, stamp, error) {
	if !t.isTold(ino, &a, closed) {
		return t.getattr(ino)
	}
	return a, stampOf(&a), t.hideTrash(ino, &a)
}

// isTold reports whether getattr would tell the attributes a, which were asked for after closed files had been closed.
func (t *files) isTold(ino meta.Ino, a *meta.Attr, closed uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return a.Full && t.open[ino] == nil && t.closed == closed
}

// settle has the buffers of a file stored before something else changes it, and keeps an error for sync.
func (t *files) settle(ino meta.Ino) {
	if o := t.useOpen(ino); o != nil {
		defer t.release(o)
		o.settle()
		o.untell()
	}
}

// sync has the buffers of a file stored. It tells of bytes that were lost since the last time.
func (t *files) sync(ino meta.Ino) error {
	o := t.useOpen(ino)
	if o == nil {
		return nil
	}
	defer t.release(o)
	o.settle()
	o.untell()
	return o.takeLost()
}

func (t *files) sweeper() {
	defer close(t.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-t.stop:
			return
		case now := <-tick.C:
			t.sweep(now, &all)
		}
	}
}

// sweep closes the files that are idle. One that has to be stored before, or whose lost bytes the
// metadata service has to be asked about, may wait long for that: all counts it, and the others do
// not wait for it.
func (t *files) sweep(now time.Time, all *sync.WaitGroup) {
	for _, o := range t.idleFiles(now) {
		if o.isStored() {
			t.closeIdle(o)
			continue
		}
		select {
		case t.storing <- struct{}{}:
			all.Go(func() {
				defer func() { <-t.storing }()
				t.closeIdle(o)
			})
		default: // as many as can be wait: another time
			t.mu.Lock()
			o.users--
			t.mu.Unlock()
		}
	}
}

// idleFiles are those to be closed; the caller uses each.
func (t *files) idleFiles(now time.Time) (list []*file) {
	t.mu.Lock()
	defer t.mu.Unlock()
	spare := len(t.open) - maxOpen
	for _, o := range t.open {
		if o.users == 0 && (spare > 0 || now.Sub(o.idle) > idleTime) {
			o.users++
			spare--
			list = append(list, o)
		}
	}
	return list
}

// closeIdle closes a file that nobody else uses, unless it has something to tell and somebody can ask.
func (t *files) closeIdle(o *file) {
	o.settle()
	t.forgive(o)
	s := &o.state
	t.mu.Lock()
	s.Lock()
	closes := o.users == 1 && !s.dirty && s.lost == nil
	s.Unlock()
	if closes {
		delete(t.open, o.ino)
		t.closed++
	} else {
		o.users--
	}
	t.mu.Unlock()
	if closes {
		o.close()
	}
}

// forgive forgets the lost bytes of a file that has gone: no Sync comes to be told of them.
func (t *files) forgive(o *file) {
	s := &o.state
	s.Lock()
	lost := s.lost
	s.Unlock()
	if lost == nil {
		return
	}
	if _, err := t.raw(o.ino); errors.Is(err, nfsserver.ErrStale) {
		o.takeLost()
	}
}

// close stores and closes all files. It returns what nobody has been told.
func (t *files) close() error {
	close(t.stop)
	<-t.swept
	t.mu.Lock() // nobody calls any more, but JuiceFS's writer commits, of files that are still open
	open := slices.Collect(maps.Values(t.open))
	t.mu.Unlock()
	errs := make([]error, len(open))
	var all sync.WaitGroup
	for i, o := range open {
		t.storing <- struct{}{}
		all.Go(func() {
			defer func() { <-t.storing }()
			errs[i] = t.closeLast(o)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// closeLast stores and closes a file. It returns what nobody has been told.
func (t *files) closeLast(o *file) error {
	o.settle()
	t.forgive(o)
	lost := o.takeLost()
	o.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, o.ino)
	return lost
}
