// Notices: unsolicited messages to the kernel.

package fuseloop

import (
	"encoding/binary"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// InodeNotify makes the kernel forget a node's attributes and its data from off on. length is in
// bytes; 0: to the end. If off is below 0, the kernel forgets only attributes. InodeNotify may
// block on pages being read or written.
func (s *Server) InodeNotify(node uint64, off, length int64) fuse.Status {
	body := binary.NativeEndian.AppendUint64(nil, node)
	body = binary.NativeEndian.AppendUint64(body, uint64(off))
	body = binary.NativeEndian.AppendUint64(body, uint64(length))
	return s.notify(noticeInode, body)
}

// StoreNotify puts data into the kernel's pages of a node at off. The kernel's size of the file
// then includes the data. No other notice grows that size, and no notice shrinks it.
func (s *Server) StoreNotify(node, off uint64, data []byte) fuse.Status {
	body := binary.NativeEndian.AppendUint64(nil, node)
	body = binary.NativeEndian.AppendUint64(body, off)
	body = binary.NativeEndian.AppendUint32(body, uint32(len(data)))
	body = binary.NativeEndian.AppendUint32(body, 0) // padding
	return s.notify(noticeStore, append(body, data...))
}

// EntryNotify makes the kernel forget a name in a directory. It may block on the kernel's lock of
// the directory.
func (s *Server) EntryNotify(dir uint64, name string) fuse.Status {
	body := binary.NativeEndian.AppendUint64(nil, dir)
	body = binary.NativeEndian.AppendUint32(body, uint32(len(name)))
	body = binary.NativeEndian.AppendUint32(body, 0) // flags
	body = append(body, name...)
	return s.notify(noticeEntry, append(body, 0))
}

// PruneNotify makes the kernel forget unused nodes. It returns ENOSYS before Linux 6.18.
func (s *Server) PruneNotify(nodes []uint64) fuse.Status {
	if !s.settings.SupportsNotify(fuse.NOTIFY_PRUNE) {
		return fuse.ENOSYS
	}
	if len(nodes) == 0 {
		return fuse.OK
	}
	body := binary.NativeEndian.AppendUint32(nil, uint32(len(nodes)))
	body = append(body, make([]byte, unsafe.Sizeof(fuse.NotifyPruneOut{})-4)...)
	for _, id := range nodes {
		body = binary.NativeEndian.AppendUint64(body, id)
	}
	return s.notify(noticePrune, body)
}

// notify sends a notice. It returns ENOSYS if the kernel does not know the code.
func (s *Server) notify(code int32, body []byte) fuse.Status {
	var vec [2]unix.Iovec
	head := appendOutHeader(nil, len(body), code, 0)
	errno := s.dev.notice(appendPiece(appendPiece(vec[:0], head), body))
	if errno == unix.EINVAL {
		errno = unix.ENOSYS
	}
	return fuse.Status(errno)
}
