// Replies to the kernel, with READ data sent without a copy.

package fuseloop

import (
	"runtime/debug"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A sliced result keeps its data in the file system's memory until Done.
type sliced interface {
	Slices() ([][]byte, fuse.Status)
}

// reply sends a whole reply. After an invalid reply a program would wait forever.
func (s *Server) reply(unique uint64, b []byte) { s.replied(unique, s.dev.write(b)) }

// replied handles the outcome of writing a reply.
func (s *Server) replied(unique uint64, errno syscall.Errno) {
	switch errno {
	case 0, unix.ENOENT, unix.ENODEV, unix.ECONNABORTED:
	default:
		s.log.Printf("reply to request %d: %v", unique, errno)
		s.dev.write(appendOutHeader(nil, 0, -int32(unix.EIO), unique))
	}
}

// refuse replies with an error.
func (s *Server) refuse(unique uint64, status fuse.Status) {
	var b [outHeaderLen]byte
	s.reply(unique, appendOutHeader(b[:0], 0, -int32(status), unique))
}

// read answers a READ. The file system may place data in the reply's own memory; one write(2) then
// sends header and data.
func (s *Server) read(r *request) {
	in := (*fuse.ReadIn)(unsafe.Pointer(unsafe.SliceData(r.in.b)))
	size := int(in.Size)
	out := s.buffers.get(outHeaderLen + size)
	if out == nil {
		s.refuse(r.unique, fuse.EINVAL)
		return
	}
	defer out.release()
	p := out.b[outHeaderLen : outHeaderLen+size]
	result, status := s.readFS(r, in, p)
	if result == nil || status != fuse.OK {
		if result != nil {
			result.Done()
		}
		if status != fuse.OK {
			s.refuse(r.unique, status)
		} else {
			s.reply(r.unique, appendOutHeader(out.b[:0], 0, 0, r.unique))
		}
		return
	}
	defer result.Done()
	var one [1][]byte
	slices := one[:]
	if lent, ok := result.(sliced); ok {
		slices, status = lent.Slices()
	} else {
		one[0], status = result.Bytes(p)
	}
	if status != fuse.OK {
		s.refuse(r.unique, status)
		return
	}
	s.replyData(r, out.b, slices, size)
}

// replyData replies with at most size bytes of data without copying them. head has room for the
// header. Data directly after the header leaves in the same piece.
func (s *Server) replyData(r *request, head []byte, slices [][]byte, size int) {
	n := 0
	v := appendPiece(r.vec[:0], head[:outHeaderLen])
	for _, p := range slices {
		p = p[:min(len(p), size-n)]
		n += len(p)
		v = appendPiece(v, p)
	}
	appendOutHeader(head[:0], n, 0, r.unique)
	if n == 0 || len(v) == 2 && v[1].Base == &head[outHeaderLen] {
		s.reply(r.unique, head[:outHeaderLen+n])
		return
	}
	s.replied(r.unique, s.dev.writev(v))
}

// readFS calls the file system. A panic there ends only the request.
func (s *Server) readFS(r *request, in *fuse.ReadIn, p []byte) (result fuse.ReadResult, status fuse.Status) {
	defer func() {
		if why := recover(); why != nil {
			s.log.Printf("panic in READ: %v\n%s", why, debug.Stack())
			result, status = nil, fuse.EIO
		}
	}()
	return s.fs.Read(r.cancel, in, p)
}
