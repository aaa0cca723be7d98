// Opening and closing files: close-to-open consistency.
//
// An open asks the server how the file is, and has the kernel drop its pages before it
// returns if another client has changed them. A close returns when all that was
// written is on stable storage, and with the error if it is not.

package fusefs

import (
	"cmp"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/nfsclient/nlm"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// fmodeExec is the kernel's flag of a file that is opened to be executed.
const fmodeExec = 0x20

// A handle is one open file or directory.
type handle struct {
	// set once
	n    *node
	who  *caller // who opened it, for what has no caller: pages written by way of a mapping
	data *datapath.Handle
	list *listing // of a directory

	direct bool // the kernel sends its writes without filling pages

	flushed atomic.Bool // a program has closed it, and none has used it since
}

// used notes that a program still has the handle.
func (h *handle) used() {
	if h.flushed.Load() {
		h.flushed.Store(false)
	}
}

// handles is what is open, by the numbers that the kernel knows them by.
type handles struct {
	mu   sync.Mutex // guards all
	by   map[uint64]*handle
	last uint64
}

// add gives a number to h, with its open counted.
func (f *fileSystem) add(h *handle) uint64 {
	hs := &f.handles
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.by == nil {
		hs.by = make(map[uint64]*handle)
	}
	hs.last++
	hs.by[hs.last] = h
	return hs.last
}

func (hs *handles) get(fh uint64) *handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.by[fh]
}

func (hs *handles) remove(fh uint64) *handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.by[fh]
	delete(hs.by, fh)
	return h
}

func (hs *handles) count() int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.by)
}

// abandon closes what the kernel did not, when it is gone.
func (hs *handles) abandon() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for fh, h := range hs.by {
		if h.data != nil {
			_ = h.data.Close()
		}
		delete(hs.by, fh)
	}
}

// openFiles are the nodes of regular files that are open.
func (hs *handles) openFiles() map[*node]*caller {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	files := make(map[*node]*caller)
	for _, h := range hs.by {
		if h.data != nil {
			files[h.n] = h.who
		}
	}
	return files
}

// file is the data path of n, nil where it was never open.
func (n *node) file() *datapath.File { return n.data.Load() }

// openData returns a handle of the data path of n, which n keeps from now on.
func (f *fileSystem) openData(n *node) *datapath.Handle {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.data.Load()
	if d == nil {
		d = f.engine.File(n.fh)
		n.appends = make(chan struct{}, 1)
		n.data.Store(d)
	}
	d.SetSize(int64(n.attr.Size))
	return d.Open()
}

// Open opens a file.
func (f *fileSystem) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	r := f.begin(opOpen, cancel, &in.Caller)
	defer r.end()
	n := f.table.get(in.NodeId)
	if n == nil {
		return staleNode
	}
	err := r.open(n, in.Flags)
	f.reopens.came(&in.Caller)
	if err != nil {
		st := f.status(err)
		if st == staleNode {
			f.reopens.expect(&in.Caller)
		}
		return st
	}
	return f.status(f.opened(r, n, in.Flags, out))
}

// open counts an open of n, if the caller may open it.
func (r *request) open(n *node, flags uint32) error {
	f := r.fs
	if err := f.table.openFile(r, n); err != nil {
		return err
	}
	err := r.mayReach(n)
	if err == nil {
		err = r.mayOpen(n, flags)
	}
	if err == nil && flags&syscall.O_TRUNC != 0 {
		err = r.truncate(n, 0)
	}
	if err != nil {
		f.closed(r, n, r.who)
	}
	return err
}

// mayOpen asks the server whether the caller may open the file, and how it is: one ACCESS
// brings both.
func (r *request) mayOpen(n *node, flags uint32) error {
	if r.fs.opt.NoCTO {
		return r.may(n, openRights(flags))
	}
	bits, err := r.askAccess(n)
	if err != nil {
		return err
	}
	// A server that still has the file open knows it without a name (Linux's does for seconds
	// after a rename over it): then another file may have the name by which this one was found.
	if attr, _ := n.snapshot(); attr.Nlink == 0 {
		r.fs.table.disown(n)
		return syscall.ESTALE
	}
	if want := openRights(flags); bits&want != want {
		return syscall.EACCES
	}
	r.fs.showOwnership(n)
	return nil
}

// openRights are the rights that the flags of open(2) need.
func openRights(flags uint32) (want uint32) {
	if flags&fmodeExec != 0 {
		return nfs3.AccessExecute
	}
	switch flags & (syscall.O_ACCMODE | syscall.O_TRUNC) {
	case syscall.O_RDONLY:
		return nfs3.AccessRead
	case syscall.O_WRONLY, syscall.O_WRONLY | syscall.O_TRUNC:
		return fileWrite
	}
	return nfs3.AccessRead | fileWrite // also of O_RDONLY|O_TRUNC
}

// opened makes the handle of a file, with its open counted, and tells the kernel which pages it may
// keep. If it is interrupted while the kernel has old pages, it takes the open back.
func (f *fileSystem) opened(r *request, n *node, flags uint32, out *fuse.OpenOut) error {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	switch {
	case flags&syscall.O_DIRECT != 0:
		out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	case flags&syscall.O_APPEND != 0:
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO // so that no page is filled at an old end
	}
	out.Fh = f.add(&handle{n: n, who: r.who, data: f.openData(n), direct: out.OpenFlags&fuse.FOPEN_DIRECT_IO != 0})
	f.watchOpen()
	if flags&syscall.O_TRUNC != 0 {
		n.emptied() // by the kernel, as of the reply
		return nil
	}
	_, err := f.showSize(r, r.who, n) // for all that have it open, and before this open returns
	if err != nil {
		_ = f.handles.remove(out.Fh).data.Close() // nothing was written through it
		f.closed(r, n, r.who)
	}
	return err
}

// Flush answers each close(2): it brings what was written to stable storage.
func (f *fileSystem) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	r := f.begin(opFlush, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return fuse.OK
	}
	h.flushed.Store(true)
	h.n.closing()
	held := f.sendHeld(r, h.n)
	err := h.data.Flush(r)
	_ = f.locks.Release(r, h.n.fh, nlm.Key{ID: in.LockOwner}) // which goes on where it is interrupted
	return f.status(cmp.Or(held, err, h.n.tellHeld()))
}

// Fsync answers fsync(2) and fdatasync(2), and each write to a file that is open with O_SYNC.
func (f *fileSystem) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	r := f.begin(opFsync, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return fuse.Status(syscall.EBADF)
	}
	held := f.sendHeld(r, h.n)
	err := h.data.Sync(r)
	return f.status(cmp.Or(held, err, h.n.tellHeld()))
}

// Release ends a handle, when no program has it any more.
func (f *fileSystem) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	r := f.begin(opRelease, cancel, &in.Caller)
	defer r.end()
	h := f.handles.remove(in.Fh)
	if h == nil {
		return
	}
	if h.data != nil {
		h.n.closing()
		_ = f.sendHeld(r, h.n) // of a close that was interrupted; another time if this is, too
		if err := cmp.Or(h.data.Close(), h.n.tellHeld()); err != nil {
			f.failed(err)
		}
		f.locks.ReleaseHandle(r, h.n.fh, in.Fh)
	}
	f.closed(r, h.n, h.who)
}

// closed counts an open out, and removes a file that was removed while it was open.
func (f *fileSystem) closed(r *request, n *node, who *caller) {
	if hidden, ok := f.table.close(n); ok {
		r.who = who
		r.removeHidden(n, hidden)
	}
}
