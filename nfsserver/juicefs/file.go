// An open file: JuiceFS's buffers of one file, and their changes unknown to the metadata.

package juicefs

import (
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/vfs"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A file is open from the first call that reads or writes it until it has been idle for a while.
// JuiceFS commits written data when a block is full, after about a second, or on request. Until
// then the metadata has the old size and times, and getattr substitutes ours. Each commit changes
// the file's times. A client would drop its cache at each of them, so getattr reports the time of
// the last write until sync, at a client's request, commits everything.
//
// The life of a WRITE: put passes the bytes to the writer and records their effect in state.
// settle, for a COMMIT or a READ, makes the writer upload and commit everything, and clears the
// record. A writer's error concerns lost bytes, whichever call gets it: fail keeps it in lost until
// sync has reported it. The next write begins with a new writer, because JuiceFS's writer repeats
// its first error forever.
//
// JuiceFS's reader has buffers that a commit marks as stale. If two reads share a buffer at that
// moment, the second gets the stale data. So nothing is written or committed during a read: reads
// share mu once everything is committed, and all other operations hold it exclusively.
type file struct {
	set *files
	ino meta.Ino

	// Guarded by files.mu.
	users int
	idle  time.Time // when users became 0

	mu sync.RWMutex
	// Guarded by mu.
	r    vfs.FileReader
	w    vfs.FileWriter
	seen stamp // of the content that r may have buffered

	// State for getattr, which does not wait for a read or a write.
	state struct {
		sync.Mutex
		pending
		lost error
	}
}

// A pending holds values that the metadata does not have yet, or has differently.
type pending struct {
	dirty    bool           // uncommitted writes exist
	end      uint64         // highest end of the writes since the file was clean
	reported bool           // getattr reports mtime
	mtime    nfsserver.Time // of the last write
	prior    nfsserver.Time // of the write before it
	given    nfsserver.Time // the last mtime used for a commit
	base     identity       // of the file at the last write
	epoch    uint64         // changes whenever the file becomes clean, or reported becomes false
}

// An identity holds the attributes that commits of data do not change.
type identity struct {
	mode, uid, gid, nlink, acl uint32
	parent                     meta.Ino
}

func identify(a *meta.Attr) identity {
	return identity{uint32(a.Mode), a.Uid, a.Gid, a.Nlink, a.AccessACL, a.Parent}
}

// over replaces the metadata's values in a by pending ones. A change other than a commit stays
// visible.
func (p *pending) over(a *meta.Attr) {
	if p.dirty {
		a.Length = max(a.Length, p.end)
	}
	if !p.reported {
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

// isStored reports whether nothing is left to store or to report.
func (o *file) isStored() bool {
	o.state.Lock()
	defer o.state.Unlock()
	return !o.state.dirty && o.state.lost == nil
}

const (
	// A writer with an error after endFor reports it to the next write, too.
	endFor  = 10 * time.Second
	endPoll = time.Millisecond
)

// openWriter opens a writer for a file of length bytes; mu is held. Until the goroutines that
// committed for the previous writer have ended, shortly after its close, JuiceFS returns that
// writer with its error. An empty write returns the error.
func (o *file) openWriter(length uint64) {
	began := time.Now()
	o.w = o.set.writer.Open(o.ino, length, 0)
	for o.w.Write(system, 0, nil) != 0 && time.Since(began) < endFor {
		o.w.Close(system)
		time.Sleep(endPoll)
		o.w = o.set.writer.Open(o.ino, length, 0)
	}
}

// clean records that everything is committed; state is locked.
func (o *file) clean() {
	o.state.dirty, o.state.end = false, 0
	o.state.epoch++
}

// endReported makes getattr report the metadata's times again, unless more has been written.
func (o *file) endReported() {
	o.state.Lock()
	defer o.state.Unlock()
	if !o.state.dirty {
		o.state.reported = false
		o.state.epoch++
	}
}

// put writes p at off. n is the file's inode just before.
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
	s.dirty, s.reported, s.base, s.end = true, true, n.base, max(s.end, off+uint64(len(p)))
	s.prior, s.mtime = s.mtime, later(s.mtime, nfsserver.Now())
	s.Unlock()
	return nil
}

// settle stores all earlier writes. An error is kept for sync.
func (o *file) settle() {
	if !o.pending().dirty {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settleLocked()
}

// settleLocked is settle with mu held.
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

// mtimeSlack is the largest difference in seconds between JuiceFS's time of a write and ours.
const mtimeSlack = 10

// justAfter reports whether mtime, reported for a write, is later than JuiceFS's time has for it.
func justAfter(has, mtime nfsserver.Time) bool {
	return has != mtime && later(has, mtime) == mtime && mtime.Sec-has.Sec < mtimeSlack
}

// commitTime returns the time for a commit with bytes last copied at the time at. Several WRITEs,
// or one WRITE across a border of JuiceFS's chunks, make several commits, which other servers'
// clients see one by one. So no two commits have the same time: a client that read between them
// would keep the second one's old bytes in its cache permanently. The last WRITE's commit gets the
// time that getattr reports. If another commit follows, getattr reports a later time for it.
func (o *file) commitTime(at nfsserver.Time) nfsserver.Time {
	s := &o.state
	s.Lock()
	defer s.Unlock()
	switch {
	case !s.reported || !justAfter(at, s.mtime):
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

// keepMtime sets the modification time that getattr has reported. The commit usually has it
// already, except if JuiceFS committed the last bytes before put recorded their time. (JuiceFS's
// DataWriter.UpdateMtime would set the pending time, but races with the commits.)
func (o *file) keepMtime(mtime nfsserver.Time) {
	var a meta.Attr
	if no := o.set.m.GetAttr(system, o.ino, &a); no != 0 {
		return // the next call on the file gets the error
	}
	has := asTime(a.Mtime, a.Mtimensec)
	if justAfter(has, mtime) {
		a.Mtime, a.Mtimensec = mtime.Sec, mtime.Nsec
		o.set.m.SetAttr(system, o.ino, meta.SetAttrMtime, 0, &a)
	}
}

// fail records that the writer has lost bytes, and makes the next write open a new one; mu is held.
// It returns the error, or ENOSPC if the object storage has reported a lack of space. Bytes lost
// because a service was unreachable are no error of the clients: ErrBusy and a new write verifier
// make them send the bytes again.
func (o *file) fail(no syscall.Errno) error {
	err := failedData(no)
	switch away := o.set.commits.take(o.ino); {
	case no != syscall.EIO:
	case o.set.objects.short():
		err = syscall.ENOSPC
	case away, o.set.objects.away():
		err = nfsserver.ErrBusy
	}
	w := o.w
	o.w = nil
	s := &o.state
	s.Lock()
	o.clean()
	s.reported = false
	if no != syscall.ENOENT { // a removed file's bytes are not missed
		s.lost = err
	}
	s.Unlock()
	w.Close(system)
	return err
}

// get reads into p from an offset within the file. n is the file's inode just before.
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

// closeReader makes the next get open a new reader: like a writer, a reader repeats its first error
// forever.
func (o *file) closeReader() {
	o.r.Close(system)
	o.r = nil
}

// refresh returns the file's length and opens a reader without buffers of older content. The file
// may have been written here, through another server, or in a mount. mu is held exclusively.
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

// read reads through the reader; mu is held.
func (o *file) read(p []byte, off uint64) (int, error) {
	n, no := o.r.Read(system, off, p)
	for no == syscall.EAGAIN { // its buffers changed meanwhile
		n, no = o.r.Read(system, off, p)
	}
	if no == syscall.EIO && o.set.objects.away() {
		return n, nfsserver.ErrBusy
	}
	return n, failedData(no)
}

// resize sets the size, after storing all earlier writes.
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
	if was.Length == size { // then JuiceFS leaves the times, but truncate(2) sets them
		if no := o.set.m.SetAttr(system, o.ino, meta.SetAttrMtimeNow, 0, &a); no != 0 {
			return failedOn(no)
		}
	}
	o.set.writer.Truncate(o.ino, size)
	o.set.reader.Truncate(o.ino, size)
	o.endReported()
	return nil
}

// takeLost returns the error of lost bytes, once.
func (o *file) takeLost() error {
	s := &o.state
	s.Lock()
	defer s.Unlock()
	err := s.lost
	s.lost = nil
	return err
}

// close closes the reader and writer; no other goroutine has o.
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
