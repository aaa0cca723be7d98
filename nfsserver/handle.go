// File handles: the Ref of a file, its export, and a MAC.

package nfsserver

import (
	"crypto/subtle"
	"encoding/binary"
)

// A file handle is opaque to clients (RFC 1813 §2.3.3). The server's handles have this form:
//
//	offset  size  field
//	0       1     format, 1
//	1       1     length of the Ref
//	2       2     zero
//	4       4     export id
//	8       8     MAC of the rest: SipHash-2-4 under the server's key
//	16      1-48  Ref
//
// The MAC prevents clients from making handles of files that the server has not shown them. This
// matters where the kernel opens any inode by number.
const (
	handleFormat = 1
	handleHeader = 16
	maxHandle    = handleHeader + MaxRef
)

// handle is a file handle in its wire form.
type handle struct {
	n int
	b [maxHandle]byte
}

func (h *handle) bytes() []byte { return h.b[:h.n] }

// seal makes the handle of file r in export id.
func (k sipKey) seal(h *handle, id uint32, r *Ref) {
	h.n = handleHeader + r.Len()
	clear(h.b[:handleHeader])
	h.b[0], h.b[1] = handleFormat, byte(r.Len())
	binary.BigEndian.PutUint32(h.b[4:], id)
	copy(h.b[handleHeader:], r.Bytes())
	binary.BigEndian.PutUint64(h.b[8:], k.sum(h.b[:h.n]))
}

// handleExport returns the export number in a handle, before the MAC is checked. ok is false for
// bytes without the form of a handle.
func handleExport(b []byte) (id uint32, ok bool) {
	if len(b) <= handleHeader || len(b) > maxHandle || b[0] != handleFormat || int(b[1]) != len(b)-handleHeader {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[4:]), true
}

// open splits a handle; ok is false if its form or MAC is wrong.
func (k sipKey) open(b []byte) (id uint32, r Ref, ok bool) {
	if id, ok = handleExport(b); !ok {
		return 0, Ref{}, false
	}
	var h handle
	r, _ = MakeRef(b[handleHeader:])
	k.seal(&h, id, &r)
	return id, r, subtle.ConstantTimeCompare(h.bytes(), b) == 1
}
