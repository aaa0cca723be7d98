// File contents: 64 KiB pages, allocated only where data was written.

package memfs

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// A page holds a file's bytes from index×pageSize on. It may be shorter than pageSize, or absent:
// the missing bytes read as zeros. Bytes after the file's end are zero.
const pageSize = 64 << 10

// ReadAt copies from the file's pages to p.
func (f *FS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := f.file(&r)
	if err != nil {
		return 0, err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.rights().MayRead(&c) {
		return 0, syscall.EACCES
	}
	if off >= n.attr.Size {
		return 0, nil
	}
	p = p[:min(uint64(len(p)), n.attr.Size-off)]
	for done := 0; done < len(p); {
		at := off + uint64(done)
		in := int(at % pageSize)
		part := p[done:min(done+pageSize-in, len(p))]
		k := 0
		if page := n.pages[at/pageSize]; in < len(page) {
			k = copy(part, page[in:])
		}
		clear(part[k:])
		done += len(part)
	}
	return len(p), nil
}

// WriteAt copies p into the file's pages. If the limit does not suffice it writes only the first
// bytes.
func (f *FS) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := f.file(&r)
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.gone:
		return 0, nfsserver.ErrStale
	case !n.rights().MayWrite(&c):
		return 0, syscall.EACCES
	case off > maxFileSize || uint64(len(p)) > maxFileSize-off:
		return 0, syscall.EFBIG
	}
	done := 0
	for done < len(p) && err == nil {
		var k int
		k, err = f.writePage(n, p[done:], off+uint64(done))
		done += k
	}
	if done > 0 || len(p) == 0 {
		err = nil
	}
	if done > 0 {
		n.attr.Size = max(n.attr.Size, off+uint64(done))
		n.attr.Mode = perm.Written(&c, &n.attr)
		n.touch()
	}
	return done, err
}

// writePage writes the first bytes of p, those within one page; n.mu is held.
func (f *FS) writePage(n *inode, p []byte, off uint64) (int, error) {
	in := int(off % pageSize)
	p = p[:min(len(p), pageSize-in)]
	page := n.pages[off/pageSize]
	if need := in + len(p); need > len(page) {
		size := pageCap(need)
		if size > len(page) {
			if err := f.charge(int64(size - len(page))); err != nil {
				return 0, err
			}
			bigger := make([]byte, size)
			copy(bigger, page)
			n.attr.Used += uint64(size - len(page))
			page = bigger
			if n.pages == nil {
				n.pages = make(map[uint64][]byte)
			}
			n.pages[off/pageSize] = page
		}
	}
	return copy(page[in:], p), nil
}

// pageCap returns the page size for n bytes: the next power of two, at least 512.
func pageCap(n int) int {
	size := 512
	for size < n {
		size *= 2
	}
	return size
}

// truncate sets a file's size; n.mu is held.
func (f *FS) truncate(n *inode, size uint64) error {
	if size > maxFileSize {
		return syscall.EFBIG
	}
	if size < n.attr.Size {
		f.dropPages(n, size)
	}
	n.attr.Size = size
	return nil
}

// dropPages frees the pages after size, and clears the rest of the last one; n.mu is held.
func (f *FS) dropPages(n *inode, size uint64) {
	for i, page := range n.pages {
		switch start := i * pageSize; {
		case start >= size:
			f.refund(int64(len(page)))
			n.attr.Used -= uint64(len(page))
			delete(n.pages, i)
		case size-start < uint64(len(page)):
			clear(page[size-start:])
		}
	}
}

// file returns a Ref's regular file.
func (f *FS) file(r *nfsserver.Ref) (*inode, error) {
	n, err := f.get(r)
	switch {
	case err != nil:
		return nil, err
	case n.typ == nfsserver.TypeDir:
		return nil, syscall.EISDIR
	case n.typ != nfsserver.TypeReg:
		return nil, syscall.EINVAL
	}
	return n, nil
}
