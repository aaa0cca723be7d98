// Opening and closing files: close-to-open consistency.
//
// An open fetches the file's attributes. If another client has changed the file, the kernel drops
// its pages before the open returns. A close returns when all written data is on stable storage, or
// returns the error.

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

// fmodeExec is the kernel's flag for a file opened for execution.
const fmodeExec = 0x20

// A handle is one open file or directory.
type handle struct {
	// set once
	n    *node
	who  *caller // the opener: sends pages written through mappings, which have no caller
	data *datapath.Handle
	list *listing // of a directory

	direct bool // the kernel sends its writes without filling pages

	flushed atomic.Bool // a program has closed the handle, and no use followed
}

// used notes that a program still uses the handle.
func (h *handle) used() {
	if h.flushed.Load() {
		h.flushed.Store(false)
	}
}

// handles has the open files and directories, by the kernel's numbers.
type handles struct {
	mu   sync.Mutex // guards all
	by   map[uint64]*handle
	last uint64
}

// add assigns a number to h; the caller has counted the open.
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

// get returns the handle with the kernel's number fh, or nil.
func (hs *handles) get(fh uint64) *handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.by[fh]
}

// remove removes and returns the handle fh, or returns nil; the kernel does not use fh again.
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

// abandon closes the handles left open at the end.
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

// openFiles returns the nodes of open regular files with one opener each.
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

// file returns the data path of n, or nil if it was never open.
func (n *node) file() *datapath.File { return n.data.Load() }

// openData returns a data path handle for n; n keeps the data path from then on.
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
	f.reopens.openArrived(&in.Caller)
	if err != nil {
		st := f.status(err)
		if st == staleNode {
			f.reopens.expect(&in.Caller)
		}
		return st
	}
	return f.status(f.opened(r, n, in.Flags, out))
}

// open counts an open of n if the caller may open it.
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

// mayOpen checks the caller's rights and refreshes the attributes, both by one ACCESS.
func (r *request) mayOpen(n *node, flags uint32) error {
	if r.fs.opt.NoCTO {
		return r.may(n, openRights(flags))
	}
	bits, err := r.askAccess(n)
	if err != nil {
		return err
	}
	// A server that has the file open accepts its handle after the last name is gone (Linux's does
	// for seconds after a rename over the file). Then the opened name may lead to another file.
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

// openRights returns the rights required by the flags of open(2).
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
	return nfs3.AccessRead | fileWrite // also for O_RDONLY|O_TRUNC
}

// opened makes a handle for an open counted by the caller. It also decides which pages the kernel
// may keep. If interrupted while the kernel has outdated pages, it takes the open back.
func (f *fileSystem) opened(r *request, n *node, flags uint32, out *fuse.OpenOut) error {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	switch {
	case flags&syscall.O_DIRECT != 0:
		out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES
	case flags&syscall.O_APPEND != 0:
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO // fill no page at an outdated end
	}
	out.Fh = f.add(&handle{n: n, who: r.who, data: f.openData(n), direct: out.OpenFlags&fuse.FOPEN_DIRECT_IO != 0})
	f.pollOpenFiles()
	if flags&syscall.O_TRUNC != 0 {
		n.emptied() // the kernel empties the file on this reply
		return nil
	}
	// This update serves all openers, and ends before this open returns.
	_, err := f.showSize(r, r.who, n)
	if err != nil {
		_ = f.handles.remove(out.Fh).data.Close() // nothing was written through it
		f.closed(r, n, r.who)
	}
	return err
}

// Flush handles each close(2): it commits written data to stable storage.
func (f *fileSystem) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	r := f.begin(opFlush, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return fuse.OK
	}
	h.flushed.Store(true)
	h.n.endMaking()
	held := f.sendDeferred(r, h.n)
	err := h.data.Flush(r)
	_ = f.locks.Release(r, h.n.fh, nlm.Key{ID: in.LockOwner}) // continues if interrupted
	return f.status(cmp.Or(held, err, h.n.takeDeferredErr()))
}

// Fsync handles fsync(2) and fdatasync(2), and each write to a file open with O_SYNC.
func (f *fileSystem) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	r := f.begin(opFsync, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return fuse.Status(syscall.EBADF)
	}
	held := f.sendDeferred(r, h.n)
	err := h.data.Sync(r)
	return f.status(cmp.Or(held, err, h.n.takeDeferredErr()))
}

// Release ends a handle after its last use.
func (f *fileSystem) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	r := f.begin(opRelease, cancel, &in.Caller)
	defer r.end()
	h := f.handles.remove(in.Fh)
	if h == nil {
		return
	}
	if h.data != nil {
		h.n.endMaking()
		_ = f.sendDeferred(r, h.n) // left by an interrupted close; stays if interrupted again
		if err := cmp.Or(h.data.Close(), h.n.takeDeferredErr()); err != nil {
			f.failed(err)
		}
		f.locks.ReleaseHandle(r, h.n.fh, in.Fh)
	}
	f.closed(r, h.n, h.who)
}

// closed takes back an open. After the last one it removes the file's hidden name.
func (f *fileSystem) closed(r *request, n *node, who *caller) {
	if hidden, ok := f.table.close(n); ok {
		r.who = who
		r.removeHidden(n, hidden)
	}
}
