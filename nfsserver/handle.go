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
// A handle in a tree of Trees has the tree's number instead of length and zeros:
//
//	0       1     format, 2
//	1       3     the tree's number, upper three bytes
//	4       12    as above
//	16      5     the tree's number, the rest
//	21      1-43  Ref
//
// The MAC prevents clients from making handles of files that the server has not shown them. This
// matters where the kernel opens any inode by number.
const (
	handleFormat = 1
	handleHeader = 16
	maxHandle    = handleHeader + MaxRef

	treeFormat = 2
	treeHeader = 21
)

// MaxTreeRef is the longest Ref in bytes of an FS opened by Trees.
const MaxTreeRef = maxHandle - treeHeader

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

// sealTree makes the handle of file r in a tree of export id. A Ref above MaxTreeRef gives no
// bytes.
func (k sipKey) sealTree(h *handle, id uint32, tree uint64, r *Ref) {
	if h.n = 0; r.Len() > MaxTreeRef {
		return
	}
	h.n = treeHeader + r.Len()
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], tree)
	clear(h.b[:treeHeader])
	h.b[0] = treeFormat
	copy(h.b[1:4], number[:3])
	copy(h.b[handleHeader:treeHeader], number[3:])
	binary.BigEndian.PutUint32(h.b[4:], id)
	copy(h.b[treeHeader:], r.Bytes())
	binary.BigEndian.PutUint64(h.b[8:], k.sum(h.b[:h.n]))
}

// handleExport returns the export number in a handle, before the MAC is checked. ok is false for
// bytes without the form of a handle.
func handleExport(b []byte) (id uint32, ok bool) {
	switch {
	case len(b) <= handleHeader || len(b) > maxHandle:
		return 0, false
	case b[0] == handleFormat && int(b[1]) == len(b)-handleHeader, b[0] == treeFormat && len(b) > treeHeader:
		return binary.BigEndian.Uint32(b[4:]), true
	}
	return 0, false
}

// handleTree returns the tree's number in a handle with a form accepted by handleExport; ok is
// false for a handle of no tree.
func handleTree(b []byte) (tree uint64, ok bool) {
	if b[0] != treeFormat {
		return 0, false
	}
	var number [8]byte
	copy(number[:3], b[1:])
	copy(number[3:], b[handleHeader:treeHeader])
	return binary.BigEndian.Uint64(number[:]), true
}

// open splits a handle; ok is false if its form or MAC is wrong.
func (k sipKey) open(b []byte) (id uint32, r Ref, ok bool) {
	if id, ok = handleExport(b); !ok {
		return 0, Ref{}, false
	}
	var h handle
	if tree, ok := handleTree(b); ok {
		r, _ = MakeRef(b[treeHeader:])
		k.sealTree(&h, id, tree, &r)
	} else {
		r, _ = MakeRef(b[handleHeader:])
		k.seal(&h, id, &r)
	}
	return id, r, subtle.ConstantTimeCompare(h.bytes(), b) == 1
}
