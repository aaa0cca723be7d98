// Reading and writing: between kernel requests and the data path.

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

// Read replies from read-ahead data, in the memory where the RNIC placed it. Otherwise it fills p,
// and the RNIC places READ data directly there.
func (f *fileSystem) Read(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	r := f.begin(opRead, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return nil, fuse.EBADF
	}
	h.used()
	if err := f.sendDeferred(r, h.n); err != nil { // reading sets the access time
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
	// The kernel treats a short reply as the new end of the file.
	cuts := err == nil && pages && len(v.Data) < len(p) && h.n.shrank(in.Offset+uint64(len(v.Data)))
	return f.newReadReply(v, h.n, group, cuts), fuse.OK
}

// A readReply is the reply to a READ. Its memory belongs to the request or the data path, and stays
// in use until the kernel has the data. Its method Slices lets fuseloop send the data uncopied.
type readReply struct {
	view  datapath.View
	fs    *fileSystem
	n     *node
	group int  // in n.reads
	cuts  bool // the kernel shrinks the size on this reply
	data  [1][]byte
}

var readReplyPool = sync.Pool{New: func() any { return new(readReply) }}

// newReadReply returns a reply with v's data. Its Done releases v and ends the READ in group.
func (f *fileSystem) newReadReply(v datapath.View, n *node, group int, cuts bool) *readReply {
	r := readReplyPool.Get().(*readReply)
	r.view, r.data[0], r.fs, r.n, r.group, r.cuts = v, v.Data, f, n, group, cuts
	return r
}

func (r *readReply) Size() int                          { return len(r.data[0]) }
func (r *readReply) Bytes([]byte) ([]byte, fuse.Status) { return r.data[0], fuse.OK }
func (r *readReply) Slices() ([][]byte, fuse.Status)    { return r.data[:], fuse.OK }

// Done is called once, after the kernel has the data or the reply has failed.
func (r *readReply) Done() {
	r.view.Release()
	if r.cuts {
		f, n, group := r.fs, r.n, r.group
		time.AfterFunc(cutFor, func() { f.endRead(n, group) })
	} else {
		r.fs.endRead(r.n, r.group)
	}
	r.data[0], r.fs, r.n = nil, nil, nil
	readReplyPool.Put(r)
}

// actor returns the credentials for data of the handle: the caller's, or the opener's if the kernel
// itself reads ahead or writes mapped pages.
func (h *handle) actor(r *request, pid uint32) datapath.Cred {
	if pid == 0 {
		return h.who
	}
	return r.who
}

// Write takes over the data. When Write returns, the data is on its way to the server. With the
// option sync and for direct I/O the data is already stable.
func (f *fileSystem) Write(cancel <-chan struct{}, in *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	r := f.begin(opWrite, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return 0, fuse.EBADF
	}
	h.used()
	if err := cmp.Or(f.sendDeferred(r, h.n), h.n.takeDeferredErr()); err != nil {
		return 0, f.status(err)
	}
	f.counts.requestMemory.Add(maxRequest)
	defer f.counts.requestMemory.Add(-maxRequest)
	who := h.actor(r, in.Pid)
	if in.WriteFlags&fuse.WRITE_CACHE != 0 {
		who = h.who // the kernel does not know the page's writer
	}
	// The kernel asks to clear set-id bits. The server clears them when it receives the data, but
	// the kernel keeps its cached mode.
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
		_ = h.n.file().WriteOut(r) // returns only interrupts
		f.forgetAttrs(h.n)
	}
	if err != nil && n == 0 {
		return 0, f.status(f.stale(h.n, err))
	}
	return uint32(n), fuse.OK
}

// dropWritten drops the pages bypassed by a write. The kernel drops these pages before such a
// WRITE, but after it only if a program waits. So pages read during the WRITE could stay outdated.
// dropWritten waits for pages being read. Requests for the kernel's pages have no lock owner.
func (f *fileSystem) dropWritten(ctx context.Context, n *node, in *fuse.WriteIn, written int) {
	switch {
	case in.WriteFlags&fuse.WRITE_LOCKOWNER == 0:
		n.paged.Store(true)
	case in.Flags&syscall.O_APPEND == 0 && written > 0 && n.paged.Load():
		off := int64(in.Offset)
		f.dropper.run(ctx, n, func() { _ = f.server.InodeNotify(n.id, off, int64(written)) })
	}
}

// write writes the part of p within the largest file size.
func (r *request) write(h *handle, who datapath.Cred, p []byte, off uint64, how nfs3.StableHow) (int, error) {
	p, err := r.fs.fits(h.n, off, p)
	if err != nil {
		return 0, err
	}
	return h.data.Write(r, who, p, int64(off), how)
}

// A dataServer sends the data path's calls and learns attributes from the replies.
type dataServer struct{ fs *fileSystem }

// client returns the client that sends calls with cred.
func (s dataServer) client(cred datapath.Cred) *nfsclient.Client {
	if who, ok := cred.(*caller); ok {
		return who.client
	}
	return s.fs.client
}

// Read sends one READ.
func (s dataServer) Read(ctx context.Context, fh nfs3.FH, cred datapath.Cred, p []byte, off uint64) (int, bool, error) {
	sent := s.fs.stamp()
	var attr nfs3.PostOpAttr
	n, eof, err := s.client(cred).ReadAttr(ctx, fh, p, off, &attr)
	if node := s.fs.table.find(fh); node != nil {
		s.fs.learnPost(node, sent, &attr)
	}
	return n, eof, err
}

// Write sends one WRITE.
func (s dataServer) Write(ctx context.Context, fh nfs3.FH, cred datapath.Cred, p []byte, off uint64, how nfs3.StableHow) (int, nfs3.StableHow, nfs3.Verf, error) {
	node := s.fs.table.find(fh)
	sent := s.begin(node)
	var wcc nfs3.WccData
	w, err := s.client(cred).WriteWcc(ctx, fh, p, off, how, &wcc)
	s.end(node, sent, &wcc)
	return w.N, w.Committed, w.Verf, err
}

// Commit sends one COMMIT for the whole file.
func (s dataServer) Commit(ctx context.Context, fh nfs3.FH, cred datapath.Cred) (nfs3.Verf, error) {
	node := s.fs.table.find(fh)
	sent := s.begin(node)
	var wcc nfs3.WccData
	verf, err := s.client(cred).CommitWcc(ctx, fh, 0, 0, &wcc)
	s.end(node, sent, &wcc)
	return verf, err
}

// begin and end enclose a change to a file. n is nil if the kernel has forgotten the file.
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
