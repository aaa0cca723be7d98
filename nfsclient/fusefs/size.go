// The kernel's copy of a file's size, which it uses for programs that do not fetch attributes.
//
// The kernel fetches attributes when a program looks at them, reads past the size, or seeks from
// the end. Mappings, sendfile, splice, copy_file_range and appends use the size that it has.
// So showSize makes size and pages the server's before an open, a lock, or a look at an open file
// is answered.
//
// Attributes in a reply cannot make the size larger safely. The kernel ignores them if a notice, or
// a write of its own, comes between request and reply. And it keeps the page of the old end, with
// zeros where data is now. Instead showSize drops the pages; those that programs have written
// through mappings are sent with the old size first. Then it stores the last byte, which moves the
// size. A size that is too large needs no more than dropped pages: the first READ that comes back
// short has the kernel correct it, or the reply to a GETATTR without a notice before it.
//
// The node's field shown is a lower bound of the size that the kernel has. Writes, changes of size,
// short READs and attributes of a smaller size move it. Attributes of a larger size do not, since
// the kernel may have ignored them. A bound that is too low costs a READ of one byte at the next
// open, and SEEK_END may find the kernel's size.

package fusefs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// sizeOf is the size of n with written data that is not on the server yet.
func (n *node) sizeOf(a *nfs3.Fattr) uint64 {
	if d := n.file(); d != nil {
		return max(a.Size, uint64(d.End()))
	}
	return a.Size
}

// current reports whether the kernel's pages have n's current content.
func (n *node) current() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pages == n.content
}

// grew is for writes: the kernel's size is at least this when they are answered.
func (n *node) grew(size uint64) {
	n.mu.Lock()
	n.shown = max(n.shown, size)
	n.mu.Unlock()
}

// shrank is for replies by which the kernel's size may become this, if it was larger. It reports
// whether it was.
func (n *node) shrank(size uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if size >= n.shown {
		return false
	}
	n.shown = size
	n.cuts++
	return true
}

// replaced is for the reply to SETATTR: the kernel takes the size in it in any case.
func (n *node) replaced(size uint64) {
	n.mu.Lock()
	n.shown, n.seen = size, true
	n.cuts++
	n.mu.Unlock()
}

// emptied is for an open that has truncated n: the kernel then drops all pages. A notice would
// have those sent that were written through mappings, and the file would grow again.
func (n *node) emptied() {
	n.mu.Lock()
	n.shown, n.pages = 0, n.content
	n.cuts++
	n.mu.Unlock()
}

// entrySize is the size in a reply that names n. An open file does not grow by it: the kernel is
// to ask for attributes then, and showSize comes before that reply.
func (f *fileSystem) entrySize(n *node, size uint64) uint64 {
	n.mu.Lock()
	if !n.seen || size <= n.shown {
		n.shown, n.seen = size, true
	}
	shown := n.shown
	n.mu.Unlock()
	if size == shown || !f.table.isOpen(n) {
		return size
	}
	return shown
}

// learnNamed is learn for a reply that names n to the kernel. If that makes the kernel's size
// smaller, no notice must come before it: the pages are left to the next look at open files, and
// fillNode has the kernel ask for attributes before it shows them.
func (f *fileSystem) learnNamed(n *node, s stamp, attr *nfs3.Fattr) {
	n.mu.Lock()
	cut := attr.Size < n.shown
	n.mu.Unlock()
	if cut {
		f.notices.hold(n)
		defer f.notices.release(n)
	}
	f.learn(n, s, attr)
}

// shrinks reports whether the reply to a GETATTR makes the kernel's size smaller: no notice must
// come before it then. If only the size is requested, pages that another client has changed are
// left to the next look at open files. With noac the kernel drops pages itself if the reply has
// another size or mtime, so only a file that has grown needs notices.
func (n *node) shrinks(forSize, noAC bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	size := n.sizeOf(&n.attr)
	return noAC && size == n.shown || size < n.shown && (noAC || forSize || n.pages == n.content)
}

// shows reports whether the kernel has the size and the pages of n's attributes.
func (n *node) shows() (size, shown uint64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	size = n.sizeOf(&n.attr)
	return size, n.shown, !n.seen || n.attr.Type != nfs3.TypeReg || n.pages == n.content && size == n.shown
}

// showSize makes the kernel's size and pages of a file those of its attributes. Its error is that
// of ctx, or ESTALE: the kernel has old pages. It waits for pages that are being read or written,
// so READs and WRITEs of pages must not call it. SETATTR of the size must not either: the kernel
// sends no pages meanwhile. showSize reports whether it has sent notices, after which the kernel
// ignores attributes in the reply to an earlier request.
func (f *fileSystem) showSize(ctx context.Context, who *caller, n *node) (notified bool, err error) {
	size, shown, ok := n.shows()
	if ok {
		return false, nil
	}
	if size < shown && n.current() {
		f.forgetAttrs(n) // so that SEEK_END has the kernel fetch the size
		return true, nil
	}
	var last [1]byte
	grown := false
	for size > shown {
		got, _, err := dataServer{f}.Read(ctx, n.fh, who, last[:], size-1)
		if isStale(err) {
			return false, f.stale(n, err)
		}
		grown = err == nil && got == len(last)
		now, _, _ := n.shows()
		if grown || err != nil || now >= size {
			break // if the caller must not read, the next open tries again
		}
		size = now // the file was cut since
	}
	dropped := false
	err = f.dropping.run(ctx, n, func() {
		n.mu.Lock()
		current := n.pages == n.content && n.shown >= size
		n.mu.Unlock()
		if current {
			return // by another open, after which a program possibly wrote the last byte
		}
		dropped = true
		f.dropPages(n)
		if grown {
			f.storeLast(n, size, last[:])
		}
	})
	return err == nil && dropped, err
}

// storeLast makes the kernel's size of n size, with last as the last byte. It drops the page again,
// since a program may have written that byte meanwhile. It does nothing if the file was truncated
// here since its size was known. If a truncation is under way, shown stays as that leaves it.
// dropping runs storeLast, after all pages were dropped.
func (f *fileSystem) storeLast(n *node, size uint64, last []byte) {
	n.mu.Lock()
	cuts, cut := n.cuts, n.sizeOf(&n.attr) < size
	n.mu.Unlock()
	if cut {
		return
	}
	switch f.server.StoreNotify(n.id, size-1, last) {
	case fuse.OK:
	case fuse.ENOENT: // the kernel has forgotten n: the reply that names it next brings the whole size
		n.mu.Lock()
		n.seen = false
		n.mu.Unlock()
		return
	default:
		return
	}
	_ = f.server.InodeNotify(n.id, int64(size-1), 1)
	n.mu.Lock()
	if n.cuts == cuts {
		n.shown = max(n.shown, size)
	}
	n.mu.Unlock()
}

// ownership has the attributes that chmod and chown by another client change without the content.
type ownership struct{ mode, uid, gid uint32 }

// showOwnership is for an open: if another client has changed them, it makes the kernel fetch
// attributes. Otherwise the kernel trusts its own until their timeout.
func (f *fileSystem) showOwnership(n *node) {
	n.mu.Lock()
	old := n.shownAs != ownership{} && n.shownAs != ownershipOf(&n.attr)
	n.mu.Unlock()
	if old {
		f.forgetAttrs(n)
	}
}

func ownershipOf(a *nfs3.Fattr) ownership { return ownership{a.Mode, a.UID, a.GID} }

// agree is for a granted lock: cached data of n is void, whatever its times are.
func (r *request) agree(n *node) {
	n.mu.Lock()
	n.content++
	n.expired = true
	n.mu.Unlock()
	_ = r.getattr(n)                  // else they are fetched when they are needed
	_, _ = r.fs.showSize(r, r.who, n) // if it was interrupted, it goes on after the reply
}

// stability is how a WRITE is to be made. If the file is open with O_SYNC, the kernel sends FSYNC
// after those of its pages, and after no others.
func (h *handle) stability(in *fuse.WriteIn) nfs3.StableHow {
	if in.Flags&syscall.O_DIRECT != 0 || h.direct && in.Flags&syscall.O_DSYNC != 0 {
		return nfs3.FileSync
	}
	return nfs3.Unstable
}

// append writes p at the end of the file. It takes the end from the server, because the kernel uses
// its own size. Appends of this mount run one at a time. Those of another client are overwritten
// only if they have not reached the server.
func (r *request) append(h *handle, who datapath.Cred, in *fuse.WriteIn, p []byte) (int, error) {
	f, n := r.fs, h.n
	select {
	case n.appends <- struct{}{}:
	case <-r.Done():
		return 0, r.Err()
	}
	defer func() { <-n.appends }()
	if err := r.getattr(n); err != nil {
		return 0, err
	}
	attr, _ := n.snapshot()
	end := n.sizeOf(&attr)
	count, err := r.write(h, who, p, end, h.stability(in))
	switch {
	case count == 0:
	case h.direct:
		last := p[count-1]
		_ = f.dropping.run(r, n, func() { f.appended(n, in.Offset, end, uint64(count), last) })
	case end != in.Offset: // the kernel holds pages of the wrong place until this is answered
		n.mu.Lock()
		n.content++
		n.mu.Unlock()
		f.notices.put(n)
	}
	return count, err
}

// appended corrects the kernel, which takes count bytes to be at guess, and they are at end; last
// is the last of them. Pages of the former end have zeros there. dropping runs it.
func (f *fileSystem) appended(n *node, guess, end, count uint64, last byte) {
	if guess == end && n.current() {
		_ = f.server.InodeNotify(n.id, int64(end), int64(count))
		return
	}
	f.dropPages(n)
	if guess < end {
		f.storeLast(n, end+count, []byte{last})
	}
}
