// Reading and writing: between the kernel's requests and the data path.

package fusefs

import (
	"cmp"
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Read answers with what was read ahead, in the memory that the RNIC has placed it in, or fills p,
// the memory that the RNIC then places READ data in.
func (f *fileSystem) Read(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	r := f.begin(opRead, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return nil, fuse.EBADF
	}
	h.used()
	if err := f.sendHeld(r, h.n); err != nil { // reading sets the access time
		return nil, f.status(err)
	}
	group := h.n.beginRead()
	f.counts.requestMemory.Add(int64(len(p)))
	defer f.counts.requestMemory.Add(-int64(len(p)))
	p = p[:min(int(in.Size), len(p))]
	pages := in.ReadFlags&fuse.READ_LOCKOWNER == 0
	if pages {
		h.n.paged.Store(true)
	}
	var v datapath.View
	var err error
	if in.Flags&syscall.O_DIRECT != 0 {
		var n int
		n, _, err = h.data.ReadDirect(r, h.actor(r, in.Pid), p, int64(in.Offset))
		v.Data = p[:n]
	} else {
		v, err = h.data.View(r, h.actor(r, in.Pid), p, int64(in.Offset))
	}
	if err != nil && len(v.Data) == 0 {
		f.endRead(h.n, group)
		return nil, f.status(f.stale(h.n, err))
	}
	cuts := err == nil && pages && len(v.Data) < len(p) && h.n.shrank(in.Offset+uint64(len(v.Data))) // as the kernel takes it
	return f.lend(v, h.n, group, cuts), fuse.OK
}

// A lentResult is the reply to a READ, in memory of the request or of the data path, which is held
// until the kernel has the data. It has Slices so that the data leaves from where it is.
type lentResult struct {
	view  datapath.View
	fs    *fileSystem
	n     *node
	group int  // of n.reading
	cuts  bool // it has the kernel make the size smaller
	data  [1][]byte
}

var lentPool = sync.Pool{New: func() any { return new(lentResult) }}

func (f *fileSystem) lend(v datapath.View, n *node, group int, cuts bool) *lentResult {
	r := lentPool.Get().(*lentResult)
	r.view, r.data[0], r.fs, r.n, r.group, r.cuts = v, v.Data, f, n, group, cuts
	return r
}

func (r *lentResult) Size() int                          { return len(r.data[0]) }
func (r *lentResult) Bytes([]byte) ([]byte, fuse.Status) { return r.data[0], fuse.OK }
func (r *lentResult) Slices() ([][]byte, fuse.Status)    { return r.data[:], fuse.OK }

// Done is called once, when the kernel has the data or will not have it.
func (r *lentResult) Done() {
	r.view.Release()
	if r.cuts {
		f, n, group := r.fs, r.n, r.group
		time.AfterFunc(cutFor, func() { f.endRead(n, group) })
	} else {
		r.fs.endRead(r.n, r.group)
	}
	r.data[0], r.fs, r.n = nil, nil, nil
	lentPool.Put(r)
}

// actor is in whose name data of the handle travels: the caller's, or the opener's where
// the kernel itself reads ahead or writes pages of a mapping.
func (h *handle) actor(r *request, pid uint32) datapath.Cred {
	if pid == 0 {
		return h.who
	}
	return r.who
}

// Write takes data over. It is on its way to the server when Write returns, and stable with
// the option sync and for direct I/O.
func (f *fileSystem) Write(cancel <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	r := f.begin(opWrite, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return 0, fuse.EBADF
	}
	h.used()
	if err := cmp.Or(f.sendHeld(r, h.n), h.n.tellHeld()); err != nil {
		return 0, f.status(err)
	}
	f.counts.requestMemory.Add(maxRequest)
	defer f.counts.requestMemory.Add(-maxRequest)
	who := h.actor(r, in.Pid)
	if in.WriteFlags&fuse.WRITE_CACHE != 0 {
		who = h.who // the kernel does not know whose page it is
	}
	// The kernel asks for setuid and setgid to be taken off, which the server does when it has the
	// data. The kernel goes on to believe the mode that it knows.
	attr, _ := h.n.snapshot()
	kills := in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 && attr.Mode&(syscall.S_ISUID|syscall.S_ISGID) != 0
	h.n.grew(in.Offset + uint64(len(p)))
	var n int
	var err error
	if in.Flags&syscall.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0 {
		n, err = r.append(h, who, in, p)
	} else {
		n, err = r.write(h, who, p, in.Offset, h.stability(in))
	}
	if n < len(p) {
		h.n.shrank(in.Offset)
	}
	f.dropWritten(r, h.n, in, n)
	if kills {
		_ = h.n.file().WriteOut(r) // its error is that of an interrupt
		f.forgetAttrs(h.n)
	}
	if err != nil && n == 0 {
		return 0, f.status(f.stale(h.n, err))
	}
	return uint32(n), fuse.OK
}

// dropWritten drops the pages that a write has bypassed. The kernel does so before it sends such a
// WRITE, and after it only if a program waits for that: pages that were read meanwhile are old.
// dropWritten waits for pages that are being read. Requests of the kernel's pages have no lock
// owner.
func (f *fileSystem) dropWritten(ctx context.Context, n *node, in *fuse.WriteIn, written int) {
	switch {
	case in.WriteFlags&fuse.WRITE_LOCKOWNER == 0:
		n.paged.Store(true)
	case in.Flags&syscall.O_APPEND == 0 && written > 0 && n.paged.Load():
		off := int64(in.Offset)
		f.dropping.run(ctx, n, func() { _ = f.server.InodeNotify(n.id, off, int64(written)) })
	}
}

// write writes the part of p that the file has room for.
func (r *request) write(h *handle, who datapath.Cred, p []byte, off uint64, how nfs3.StableHow) (int, error) {
	p, err := r.fs.fits(h.n, off, p)
	if err != nil {
		return 0, err
	}
	return h.data.Write(r, who, p, int64(off), how)
}

// A dataServer makes the calls of the data path, and has attributes learned from the replies.
type dataServer struct{ fs *fileSystem }

// client is who calls.
func (s dataServer) client(cred datapath.Cred) *nfsclient.Client {
	if who, ok := cred.(*caller); ok {
		return who.client
	}
	return s.fs.client
}

// Read is one READ.
func (s dataServer) Read(ctx context.Context, fh nfs3.FH, cred datapath.Cred, p []byte, off uint64) (int, bool, error) {
	sent := s.fs.stamp()
	var attr nfs3.PostOpAttr
	n, eof, err := s.client(cred).ReadAttr(ctx, fh, p, off, &attr)
	if node := s.fs.table.find(fh); node != nil {
		s.fs.learnPost(node, sent, &attr)
	}
	return n, eof, err
}

// Write is one WRITE.
func (s dataServer) Write(ctx context.Context, fh nfs3.FH, cred datapath.Cred, p []byte, off uint64, how nfs3.StableHow) (int, nfs3.StableHow, nfs3.Verf, error) {
	node := s.fs.table.find(fh)
	sent := s.begin(node)
	var wcc nfs3.WccData
	w, err := s.client(cred).WriteWcc(ctx, fh, p, off, how, &wcc)
	s.end(node, sent, &wcc)
	return w.N, w.Committed, w.Verf, err
}

// Commit is one COMMIT of all of the file.
func (s dataServer) Commit(ctx context.Context, fh nfs3.FH, cred datapath.Cred) (nfs3.Verf, error) {
	node := s.fs.table.find(fh)
	sent := s.begin(node)
	var wcc nfs3.WccData
	verf, err := s.client(cred).CommitWcc(ctx, fh, 0, 0, &wcc)
	s.end(node, sent, &wcc)
	return verf, err
}

// begin and end stand around a call that changes a file, whose node may be gone.
func (s dataServer) begin(n *node) stamp {
	if n == nil {
		return stamp{}
	}
	return s.fs.changing(n)
}

func (s dataServer) end(n *node, sent stamp, wcc *nfs3.WccData) {
	if n == nil {
		return
	}
	s.fs.learnWcc(n, sent, wcc)
	s.fs.changed(n)
}
