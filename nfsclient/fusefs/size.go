// A file's size in the kernel, used for programs without fetching attributes.
//
// The kernel fetches attributes when a program asks for them, reads past the size, or seeks from
// the end. Mappings, sendfile, splice, copy_file_range and appends use the kernel's copy of the
// size. So showSize updates the kernel's size and pages before the reply to an open, a lock, or a
// stat of an open file.
//
// Attributes in a reply cannot grow the size safely. The kernel ignores them if a notice or a write
// of its own comes between request and reply. It also keeps the page of the old end, with zeros in
// place of the new data. Instead showSize drops the pages; the kernel first sends pages written
// through mappings with the old size. Then showSize stores the last byte, which moves the size. If
// the size is too large, dropping pages suffices: the next short READ corrects it, or the reply to
// a GETATTR without a notice before it.
//
// The node's field shown is a lower bound for the kernel's size. Writes, size changes, short READs
// and attributes with a smaller size move it. Attributes with a larger size do not, because the
// kernel may have ignored them. Too low a bound costs a READ of one byte at the next open, and
// SEEK_END may use the kernel's size.

package fusefs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// sizeOf returns the size of n including written data not yet on the server.
func (n *node) sizeOf(a *nfs3.Fattr) uint64 {
	if d := n.file(); d != nil {
		return max(a.Size, uint64(d.End()))
	}
	return a.Size
}

// current reports whether the kernel's pages have the current content of n.
func (n *node) current() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pages == n.content
}

// grew notes that after the reply to a write the kernel's size is at least size.
func (n *node) grew(size uint64) {
	n.mu.Lock()
	n.shown = max(n.shown, size)
	n.mu.Unlock()
}

// shrank notes a reply that may shrink the kernel's size to size. It reports whether the kernel's
// size was larger.
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

// replaced notes the reply to a SETATTR: the kernel always adopts the reply's size.
func (n *node) replaced(size uint64) {
	n.mu.Lock()
	n.shown, n.seen = size, true
	n.cuts++
	n.mu.Unlock()
}

// emptied notes an open with truncation, on which the kernel drops all pages. A notice instead
// would make the kernel send pages written through mappings first, and the file would grow again.
func (n *node) emptied() {
	n.mu.Lock()
	n.shown, n.pages = 0, n.content
	n.cuts++
	n.mu.Unlock()
}

// entrySize returns the size for a reply naming n. The reply does not show an open file's larger
// size: the kernel has to send GETATTR, and showSize runs before that reply.
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

// learnNamed is learn for a reply naming n to the kernel. If the reply shrinks the kernel's size,
// no notice may come before that reply. The next poll of open files then drops the pages, and
// fillNode makes the kernel fetch attributes before it shows them.
func (f *fileSystem) learnNamed(n *node, s stamp, attr *nfs3.Fattr) {
	n.mu.Lock()
	cut := attr.Size < n.shown
	n.mu.Unlock()
	if cut {
		f.notices.suppress(n)
		defer f.notices.resume(n)
	}
	f.learn(n, s, attr)
}

// shrinks reports whether the reply to a GETATTR shrinks the kernel's size, so that no notice may
// come before the reply. If only the size is requested, the next poll of open files drops pages
// changed by other clients. With noac the kernel drops pages itself if the reply has another size
// or mtime. Only a file that has grown then needs notices.
func (n *node) shrinks(forSize, noAC bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	size := n.sizeOf(&n.attr)
	return noAC && size == n.shown || size < n.shown && (noAC || forSize || n.pages == n.content)
}

// shows reports whether the kernel has the current size and pages of n.
func (n *node) shows() (size, shown uint64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	size = n.sizeOf(&n.attr)
	return size, n.shown, !n.seen || n.attr.Type != nfs3.TypeReg || n.pages == n.content && size == n.shown
}

// showSize updates the kernel's size and pages of a file to its attributes. It returns an error of
// ctx or ESTALE; the kernel then has outdated pages. It waits for pages being read or written, so
// READs and WRITEs of pages must not call it. SETATTR of the size must not either: the kernel sends
// no pages meanwhile. showSize reports whether it has sent notices, after which the kernel ignores
// attributes in replies to earlier requests.
func (f *fileSystem) showSize(ctx context.Context, who *caller, n *node) (notified bool, err error) {
	size, shown, ok := n.shows()
	if ok {
		return false, nil
	}
	if size < shown && n.current() {
		f.forgetAttrs(n) // makes SEEK_END fetch the size
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
			break // if the caller cannot read, the next open tries again
		}
		size = now // the file was truncated meanwhile
	}
	dropped := false
	err = f.dropper.run(ctx, n, func() {
		n.mu.Lock()
		current := n.pages == n.content && n.shown >= size
		n.mu.Unlock()
		if current {
			return // another open has grown the size, and the last byte may be rewritten
		}
		dropped = true
		f.dropPages(n)
		if grown {
			f.storeLast(n, size, last[:])
		}
	})
	return err == nil && dropped, err
}

// storeLast sets the kernel's size for n, with last as the last byte. It drops the page again,
// because a program may have written that byte meanwhile. It does nothing if this mount truncated
// the file after reading the size. During a truncation the field shown keeps the truncation's
// value. dropper runs storeLast after dropping all pages.
func (f *fileSystem) storeLast(n *node, size uint64, last []byte) {
	n.mu.Lock()
	cuts, cut := n.cuts, n.sizeOf(&n.attr) < size
	n.mu.Unlock()
	if cut {
		return
	}
	switch f.server.StoreNotify(n.id, size-1, last) {
	case fuse.OK:
	// The kernel has forgotten n. The next reply that names it carries the whole size.
	case fuse.ENOENT:
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

// ownership has the attributes that another client's chmod and chown change without the content.
type ownership struct{ mode, uid, gid uint32 }

// showOwnership is called by an open. If another client has changed the ownership, it makes the
// kernel fetch attributes. Without this the kernel would trust its own copy until the timeout.
func (f *fileSystem) showOwnership(n *node) {
	n.mu.Lock()
	old := n.shownAs != ownership{} && n.shownAs != ownershipOf(&n.attr)
	n.mu.Unlock()
	if old {
		f.forgetAttrs(n)
	}
}

// ownershipOf returns the ownership in a.
func ownershipOf(a *nfs3.Fattr) ownership { return ownership{a.Mode, a.UID, a.GID} }

// voidCached is called for a granted lock. It voids cached data of n, even if the file's times are
// unchanged.
func (r *request) voidCached(n *node) {
	n.mu.Lock()
	n.content++
	n.expired = true
	n.mu.Unlock()
	_ = r.getattr(n)                  // on an error the next use fetches the attributes
	_, _ = r.fs.showSize(r, r.who, n) // if interrupted, showSize continues after the reply
}

// stability returns the stability to request for a WRITE. For a file open with O_SYNC the kernel
// sends FSYNC only after WRITEs of its pages.
func (h *handle) stability(in *fuse.WriteIn) nfs3.StableHow {
	if in.Flags&syscall.O_DIRECT != 0 || h.direct && in.Flags&syscall.O_DSYNC != 0 {
		return nfs3.FileSync
	}
	return nfs3.Unstable
}

// append writes p at the end of the file. It asks the server for the end, because the kernel uses
// its own size. Appends of this mount run one at a time. Another client's append is overwritten
// only if it has not reached the server.
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
		_ = f.dropper.run(r, n, func() { f.appended(n, in.Offset, end, uint64(count), last) })
	case end != in.Offset: // the kernel has put the data at the wrong place: drop its pages
		n.mu.Lock()
		n.content++
		n.mu.Unlock()
		f.notices.put(n)
	}
	return count, err
}

// appended corrects the kernel's pages after an append. The kernel assumed count bytes at guess;
// the bytes are at end, and last is the last byte. The kernel's pages between the previous and the
// new end have zeros. dropper runs appended.
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
