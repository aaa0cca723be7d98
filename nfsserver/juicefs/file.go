// An open file: JuiceFS's buffers of one file, and what they hold that the metadata does not know yet.

package juicefs

import (
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/vfs"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A file is open from the first call that reads or writes it until it has been idle for a while. JuiceFS commits what
// is written when a block is full, after a second or so, or when it is asked to: until then size and times of the metadata
// are those of before, and getattr puts ours in their place. Each of these commits is a change of the file to JuiceFS. To a client it
// is none, and would cost it its cache; so getattr tells of the time of the last write until the client has commits made, by sync.
//
// The life of a WRITE: put gives the bytes to the writer and notes in state what they change; settle, for a COMMIT or a
// READ, has the writer upload and commit all of it, and forgets the note. An error of the writer is about bytes that are lost, no
// matter which call sees it: fail keeps it in lost until sync has told it, and the next write begins with a new writer, as JuiceFS's repeats its
// first error for ever.
//
// JuiceFS's reader has buffers, which a commit marks as old; one that two reads share at that moment is given to the second
// as it is. So nothing is written or committed while something is read: reads share mu once all is committed, and all else is alone.
type file struct {
	set *files
	ino meta.Ino

	// Guarded by files.mu.
	users int
	idle  time.Time // since when there are no users

	mu sync.RWMutex
	// Guarded by mu.
	r    vfs.FileReader
	w    vfs.FileWriter
	seen stamp // of the content of which r has possibly buffered something

	// What getattr needs, which does not wait for a read or a write.
	state struct {
		sync.Mutex
		pending
		lost error
	}
}

// A pending is what the metadata does not know, or knows otherwise.
type pending struct {
	dirty bool           // something has not been committed
	end   uint64         // of the writes since the file was clean
	told  bool           // mtime is what getattr tells
	mtime nfsserver.Time // of the last write
	prior nfsserver.Time // of the write before
	given nfsserver.Time // the last mtime that a commit has got
	base  identity       // of the file when it was written
	epoch uint64         // changes whenever the file becomes clean, or told ends
}

// An identity is what commits of data do not change.
type identity struct {
	mode, uid, gid, nlink, acl uint32
	parent                     meta.Ino
}

func identify(a *meta.Attr) identity {
	return identity{uint32(a.Mode), a.Uid, a.Gid, a.Nlink, a.AccessACL, a.Parent}
}

// over puts what is pending in the place of what the metadata has, in a. A change that is none of a commit shows.
func (p *pending) over(a *meta.Attr) {
	if p.dirty {
		a.Length = max(a.Length, p.end)
	}
	if !p.told {
		return
	}
	m, c := asTime(a.Mtime, a.Mtimensec), asTime(a.Ctime, a.Ctimensec)
	if later(m, p.mtime) == p.mtime && identify(a) == p.base {
		c = p.mtime
	}
	m, c = later(m, p.mtime), later(c, p.mtime)
	a.Mtime, a.Mtimensec, a.Ctime, a.Ctimensec = m.Sec, m.Nsec, c.Sec, c.Nsec
}

func (o *file) pending() pending {
	o.state.Lock()
	defer o.state.Unlock()
	return o.state.pending
}

// isStored reports whether nothing is left to be stored, or told.
func (o *file) isStored() bool {
	o.state.Lock()
	defer o.state.Unlock()
	return !o.state.dirty && o.state.lost == nil
}

const (
	// An error that a writer still has after endFor is told to the next write, too.
	endFor  = 10 * time.Second
	endPoll = time.Millisecond
)

// openWriter opens a writer for a file of length bytes; mu is held. JuiceFS gives the one before, with its error, until the
// goroutines that committed for it have ended, which is a moment after it was closed. To write nothing tells its error.
func (o *file) openWriter(length uint64) {
	began := time.Now()
	o.w = o.set.writer.Open(o.ino, length, 0)
	for o.w.Write(system, 0, nil) != 0 && time.Since(began) < endFor {
		o.w.Close(system)
		time.Sleep(endPoll)
		o.w = o.set.writer.Open(o.ino, length, 0)
	}
}

// clean notes that all is committed; the caller has state locked.
func (o *file) clean() {
	o.state.dirty, o.state.end = false, 0
	o.state.epoch++
}

// untell has the times be those of the metadata from now on, unless more has been written.
func (o *file) untell() {
	o.state.Lock()
	defer o.state.Unlock()
	if !o.state.dirty {
		o.state.told = false
		o.state.epoch++
	}
}

// put writes p at off of the file, which was n just before.
func (o *file) put(p []byte, off uint64, n *inode) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.w == nil {
		o.openWriter(n.stamp.length)
	}
	if no := o.w.Write(system, off, p); no != 0 {
		return o.fail(no)
	}
	s := &o.state
	s.Lock()
	s.dirty, s.told, s.base, s.end = true, true, n.base, max(s.end, off+uint64(len(p)))
	s.prior, s.mtime = s.mtime, later(s.mtime, nfsserver.Now())
	s.Unlock()
	return nil
}

// settle has all stored that was written before. The error is kept for sync.
func (o *file) settle() {
	if !o.pending().dirty {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settleLocked()
}

// settleLocked is settle for who holds mu.
func (o *file) settleLocked() {
	p := o.pending()
	if !p.dirty {
		return
	}
	if no := o.w.Flush(system); no != 0 {
		o.fail(no)
		return
	}
	o.keepMtime(o.pending().mtime)
	o.state.Lock()
	defer o.state.Unlock()
	o.clean()
}

// mtimeSlack is the most, in seconds, by which JuiceFS's time of a write differs from ours.
const mtimeSlack = 10

// justAfter reports whether mtime, which was told of a write, is later than the time that JuiceFS has for it.
func justAfter(has, mtime nfsserver.Time) bool {
	return has != mtime && later(has, mtime) == mtime && mtime.Sec-has.Sec < mtimeSlack
}

// commitTime is the time of a commit whose bytes were copied last at the time at. Bytes of several
// WRITEs, or those of one across a border of JuiceFS's chunks, are several commits, which clients
// of other servers see come one by one. So no two have the same time: who has read between them
// would have the second's bytes old in its cache for good. That of the last WRITE has the time that
// getattr tells; if another one follows it, that is told of a later time.
func (o *file) commitTime(at nfsserver.Time) nfsserver.Time {
	s := &o.state
	s.Lock()
	defer s.Unlock()
	switch {
	case !s.told || !justAfter(at, s.mtime):
		return at
	case s.given == s.mtime:
		t := time.Unix(s.mtime.Sec, int64(s.mtime.Nsec)+1)
		s.mtime = asTime(t.Unix(), uint32(t.Nanosecond()))
		s.epoch++
	case later(at, s.prior) == s.prior:
		return at
	}
	s.given = s.mtime
	return s.mtime
}

// keepMtime has the modification time be the one that getattr has told. It is already, but where JuiceFS committed the last bytes before put had
// noted their time. (Its DataWriter.UpdateMtime would set that of what is pending, but races with the commits of it.)
func (o *file) keepMtime(mtime nfsserver.Time) {
	var a meta.Attr
	if no := o.set.m.GetAttr(system, o.ino, &a); no != 0 {
		return // the next call on the file sees it
	}
	has := asTime(a.Mtime, a.Mtimensec)
	if justAfter(has, mtime) {
		a.Mtime, a.Mtimensec = mtime.Sec, mtime.Nsec
		o.set.m.SetAttr(system, o.ino, meta.SetAttrMtime, 0, &a)
	}
}

// fail notes that the writer has lost bytes, and has the next write begin anew; mu is held. It returns the error with what the object storage
// has said of its room. Bytes that one of the services was not there for are lost all the same, but clients are to send them again, which the
// write verifier has them do: that is no error of theirs.
func (o *file) fail(no syscall.Errno) error {
	err := failedData(no)
	switch away := o.set.commits.take(o.ino); {
	case no != syscall.EIO:
	case o.set.room.short():
		err = syscall.ENOSPC
	case away, o.set.room.away():
		err = nfsserver.ErrBusy
	}
	w := o.w
	o.w = nil
	s := &o.state
	s.Lock()
	o.clean()
	s.told = false
	if no != syscall.ENOENT { // nobody misses the bytes of a file that has gone
		s.lost = err
	}
	s.Unlock()
	w.Close(system)
	return err
}

// get reads into p, from an offset within the file, which was n just before.
func (o *file) get(p []byte, off uint64, n *inode) (int, error) {
	var failing vfs.FileReader
	o.mu.RLock()
	if o.r != nil && o.seen == n.stamp && !o.pending().dirty {
		got, err := o.read(p, off)
		failing = o.r
		o.mu.RUnlock()
		if err == nil {
			return got, nil
		}
	} else {
		o.mu.RUnlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.r != nil && o.r == failing {
		o.closeReader()
	}
	o.settleLocked()
	length, err := o.refresh()
	if err != nil || off >= length {
		return 0, err
	}
	got, err := o.read(p[:min(uint64(len(p)), length-off)], off)
	if err != nil {
		o.closeReader()
	}
	return got, err
}

// closeReader has the next get begin with a new reader: one repeats its first error for ever, as a writer does.
func (o *file) closeReader() {
	o.r.Close(system)
	o.r = nil
}

// refresh returns the length of the file and has a reader open for it, without the buffers of an older content: it has possibly been
// written, here, or through another server or a mount; mu is held exclusively.
func (o *file) refresh() (uint64, error) {
	var a meta.Attr
	if no := o.set.m.GetAttr(system, o.ino, &a); no != 0 {
		return 0, failedOn(no)
	}
	is := stampOf(&a)
	if o.r == nil {
		o.r = o.set.reader.Open(o.ino, a.Length)
	} else if o.seen != is {
		o.set.reader.Invalidate(o.ino, 0, a.Length)
		o.set.reader.Truncate(o.ino, a.Length)
	}
	o.seen = is
	return a.Length, nil
}

// read has the reader read; mu is held.
func (o *file) read(p []byte, off uint64) (int, error) {
	n, no := o.r.Read(system, off, p)
	for no == syscall.EAGAIN { // its buffers changed under it
		n, no = o.r.Read(system, off, p)
	}
	if no == syscall.EIO && o.set.room.away() {
		return n, nfsserver.ErrBusy
	}
	return n, failedData(no)
}

// resize sets the size. What was written before counts as written before.
func (o *file) resize(size uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settleLocked()
	var was, a meta.Attr
	if no := o.set.m.GetAttr(system, o.ino, &was); no != 0 {
		return failedOn(no)
	}
	if no := o.set.m.Truncate(system, o.ino, 0, size, &a, true); no != 0 {
		return failedOn(no)
	}
	if was.Length == size { // JuiceFS does not touch the times then, truncate(2) does
		if no := o.set.m.SetAttr(system, o.ino, meta.SetAttrMtimeNow, 0, &a); no != 0 {
			return failedOn(no)
		}
	}
	o.set.writer.Truncate(o.ino, size)
	o.set.reader.Truncate(o.ino, size)
	o.untell()
	return nil
}

// takeLost returns the error of bytes that were lost, once.
func (o *file) takeLost() error {
	s := &o.state
	s.Lock()
	defer s.Unlock()
	err := s.lost
	s.lost = nil
	return err
}

// close is for who is the last to know o.
func (o *file) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.w != nil {
		o.w.Close(system)
	}
	if o.r != nil {
		o.r.Close(system)
	}
	o.r, o.w = nil, nil
}
