// The messages of FUSE as far as they are read and made here: headers, and what bounds a reply.

package fuseloop

import (
	"encoding/binary"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Operations that are not treated as the others are (fuse.h).
const (
	opForget       = 2
	opRead         = 15
	opRelease      = 18
	opGetxattr     = 22
	opListxattr    = 23
	opInit         = 26
	opReaddir      = 28
	opReleasedir   = 29
	opSetlkw       = 33
	opInterrupt    = 36
	opIoctl        = 39
	opBatchForget  = 42
	opReaddirplus  = 44
	noticeInode    = -fuse.NOTIFY_INVAL_INODE
	noticeEntry    = -fuse.NOTIFY_INVAL_ENTRY
	noticeStore    = -fuse.NOTIFY_STORE_CACHE
	noticePrune    = -fuse.NOTIFY_PRUNE
	interruptedAt  = 40 // in an INTERRUPT: which request
	sizeInRead     = 56 // in READ and READDIR: the most bytes of the reply
	sizeInGetxattr = 40
	sizeInIoctl    = 68
)

// Lengths of headers and structures.
const (
	inHeaderLen  = int(unsafe.Sizeof(fuse.InHeader{}))
	outHeaderLen = int(unsafe.Sizeof(fuse.OutHeader{}))
	readLen      = int(unsafe.Sizeof(fuse.ReadIn{}))
	interruptLen = interruptedAt + 8
	outDataMost  = 512     // of the structure in a reply
	pathMost     = 4 << 10 // of READLINK, whose request has no size
)

// An inHeader is what is read of the header of a request (struct fuse_in_header):
//
//	offset  size  field
//	     0     4  length of the message
//	     4     4  opcode
//	     8     8  unique: the request's number
//	    32     4  pid: the thread that it is for; 0: of nobody, or not known
type inHeader struct {
	opcode uint32
	pid    uint32
	unique uint64
}

// parseHeader reads the header of a message that has one.
func parseHeader(b []byte) inHeader {
	return inHeader{opcode: binary.NativeEndian.Uint32(b[4:]), unique: binary.NativeEndian.Uint64(b[8:]), pid: binary.NativeEndian.Uint32(b[32:])}
}

// forgets reports whether a message is one that gets no reply, and that the kernel sends when it
// drops what it knew.
func (h inHeader) forgets() bool { return h.opcode == opForget || h.opcode == opBatchForget }

// releases reports whether nobody waits for the reply: the program that has closed a file goes on
// meanwhile.
func (h inHeader) releases() bool { return h.opcode == opRelease || h.opcode == opReleasedir }

// replyRoom is the most bytes that the reply to b can have.
func replyRoom(h inHeader, b []byte) int {
	at := 0
	switch h.opcode {
	case opRead, opReaddir, opReaddirplus:
		at = sizeInRead
	case opGetxattr, opListxattr:
		at = sizeInGetxattr
	case opIoctl:
		at = sizeInIoctl
	}
	room := outHeaderLen + outDataMost
	if at == 0 || len(b) < at+4 {
		return room + pathMost
	}
	return room + int(binary.NativeEndian.Uint32(b[at:]))
}

// appendOutHeader appends the header of a reply with n bytes after it (struct fuse_out_header):
// length, status, unique. The status of an error is below 0; that of a notice is its code, and
// unique is 0 then.
func appendOutHeader(b []byte, n int, status int32, unique uint64) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(outHeaderLen+n))
	b = binary.NativeEndian.AppendUint32(b, uint32(status))
	return binary.NativeEndian.AppendUint64(b, unique)
}

// appendInterrupt appends an INTERRUPT of the request unique.
func appendInterrupt(b []byte, unique uint64) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(interruptLen))
	b = binary.NativeEndian.AppendUint32(b, opInterrupt)
	b = append(b, make([]byte, interruptedAt-8)...)
	return binary.NativeEndian.AppendUint64(b, unique)
}
