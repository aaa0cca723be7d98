// The table of open files, and attributes including buffered writes.

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
	// idleTime is how long an unused file stays open; maxOpen bounds the unused open files.
	idleTime = 10 * time.Second
	maxOpen  = 10000
	// sweepEvery is the interval between looks for idle files.
	sweepEvery = time.Second
	// storeAtOnce bounds the files being stored for closing at a time.
	storeAtOnce = 16
)

// files are an FS's open files.
type files struct {
	// Set once.
	m        meta.Meta
	readOnly bool
	objects  *watchedStorage
	commits  *commits
	reader   vfs.DataReader
	writer   vfs.DataWriter
	stop     chan struct{}
	swept    chan struct{} // closed when the sweeper ends
	storing  chan struct{} // semaphore for storing idle files, or all files at close

	root rootAttr

	mu     sync.Mutex // guards open, closed, and the files' users and idle
	open   map[meta.Ino]*file
	closed uint64 // number of closed files so far
}

// start makes the buffers, and starts closing idle files until close.
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

// useOpen is use of an open file; nil: it is not open.
func (t *files) useOpen(ino meta.Ino) *file {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.open[ino]
	if o != nil {
		o.users++
	}
	return o
}

// commitTime returns the time for a commit of a file with bytes last copied at the time at.
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

// raw returns the metadata's attributes.
func (t *files) raw(ino meta.Ino) (a meta.Attr, err error) {
	if ino == rootIno {
		return t.rawRoot()
	}
	if no := t.m.GetAttr(system, ino, &a); no != 0 {
		return a, failedOn(no)
	}
	return a, t.hideTrash(ino, &a)
}

// hideTrash subtracts the names in the trash from the link count. An object without other names is
// stale.
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

// hasTrash reports whether removed names go to the trash; `juicefs config` can change this at any
// time.
func (t *files) hasTrash() bool { return t.m.GetFormat().TrashDays > 0 }

// getattr returns the attributes as they will be once everything buffered is committed, and the
// stamp of the metadata's.
func (t *files) getattr(ino meta.Ino) (a meta.Attr, is stamp, err error) {
	o := t.useOpen(ino)
	if o == nil {
		a, err = t.raw(ino)
		return a, stampOf(&a), err
	}
	defer t.release(o)
	for {
		// In this order: if the file becomes clean after pending, the attributes read next include
		// the commit.
		p := o.pending()
		a, err = t.raw(ino)
		is = stampOf(&a)
		if err != nil || !p.reported {
			return a, is, err
		}
		if o.pending().epoch != p.epoch {
			continue // committed or truncated meanwhile: the two are from different moments
		}
		p.over(&a)
		return a, is, nil
	}
}

// closes returns the number of closed files so far.
func (t *files) closes() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// found is getattr after a look-up that returned the attributes a; closed is the value of closes
// before the look-up. If the file is not open and was not open meanwhile, a is complete and needs
// no second query. A service may lose attributes and return only some of them; then found asks
// again.
func (t *files) found(ino meta.Ino, a meta.Attr, closed uint64) (meta.Attr, stamp, error) {
	if !t.isCurrent(ino, &a, closed) {
		return t.getattr(ino)
	}
	return a, stampOf(&a), t.hideTrash(ino, &a)
}

// isCurrent reports whether getattr would return a, which was read after closed files had been
// closed.
func (t *files) isCurrent(ino meta.Ino, a *meta.Attr, closed uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return a.Full && t.open[ino] == nil && t.closed == closed
}

// settle stores a file's buffered writes before another change. An error is kept for sync.
func (t *files) settle(ino meta.Ino) {
	if o := t.useOpen(ino); o != nil {
		defer t.release(o)
		o.settle()
		o.endReported()
	}
}

// sync stores a file's buffered writes. It returns the error of bytes lost since the last call.
func (t *files) sync(ino meta.Ino) error {
	o := t.useOpen(ino)
	if o == nil {
		return nil
	}
	defer t.release(o)
	o.settle()
	o.endReported()
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

// sweep closes idle files. Storing a file, or asking the metadata service about a file with lost
// bytes, may block for long. Such files are closed in goroutines counted by all, so the others do
// not wait.
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
		default: // the limit is reached: try again later
			t.mu.Lock()
			o.users--
			t.mu.Unlock()
		}
	}
}

// idleFiles returns the files to close, with a use of each.
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

// closeIdle closes a file without other users, unless it has an error that a later sync can report.
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

// forgive drops the error of lost bytes if the file has been removed: no sync will ask for it.
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

// close stores and closes all files. It returns the unreported errors.
func (t *files) close() error {
	close(t.stop)
	<-t.swept
	t.mu.Lock() // no call runs any more, but JuiceFS's writer still commits open files
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

// closeLast stores and closes a file. It returns its unreported error.
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
