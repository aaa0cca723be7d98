// The FUSE messages read and made here: headers, and bounds of replies.

package fuseloop

import (
	"encoding/binary"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Operations with special handling (fuse.h).
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
	interruptedAt  = 40 // offset in INTERRUPT: the request's number
	sizeInRead     = 56 // offset in READ and READDIR: the largest reply in bytes
	sizeInGetxattr = 40
	sizeInIoctl    = 68
)

// Lengths of headers and structures, in bytes.
const (
	inHeaderLen  = int(unsafe.Sizeof(fuse.InHeader{}))
	outHeaderLen = int(unsafe.Sizeof(fuse.OutHeader{}))
	readLen      = int(unsafe.Sizeof(fuse.ReadIn{}))
	interruptLen = interruptedAt + 8
	outDataMost  = 512     // largest structure in a reply without data
	pathMost     = 4 << 10 // of READLINK, which has no size in its request
)

// An inHeader has the used fields of a request header (struct fuse_in_header):
//
//	offset  size  field
//	     0     4  length of the message
//	     4     4  opcode
//	     8     8  unique: the request's number
//	    32     4  pid: the calling thread; 0: none or unknown
type inHeader struct {
	opcode uint32
	pid    uint32
	unique uint64
}

// parseHeader decodes the header of a message; b has at least inHeaderLen bytes.
func parseHeader(b []byte) inHeader {
	return inHeader{opcode: binary.NativeEndian.Uint32(b[4:]), unique: binary.NativeEndian.Uint64(b[8:]), pid: binary.NativeEndian.Uint32(b[32:])}
}

// forgets reports whether the message drops kernel references and needs no reply.
func (h inHeader) forgets() bool { return h.opcode == opForget || h.opcode == opBatchForget }

// releases reports whether the message is a RELEASE: the program that closed the file does not wait
// for the reply.
func (h inHeader) releases() bool { return h.opcode == opRelease || h.opcode == opReleasedir }

// replyRoom returns the largest reply to b in bytes.
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

// appendOutHeader appends a reply header for n following bytes (struct fuse_out_header): length,
// status, unique. An error's status is below 0. A notice has its code as status, and unique 0.
func appendOutHeader(b []byte, n int, status int32, unique uint64) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(outHeaderLen+n))
	b = binary.NativeEndian.AppendUint32(b, uint32(status))
	return binary.NativeEndian.AppendUint64(b, unique)
}

// appendInterrupt appends an INTERRUPT for the request unique.
func appendInterrupt(b []byte, unique uint64) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(interruptLen))
	b = binary.NativeEndian.AppendUint32(b, opInterrupt)
	b = append(b, make([]byte, interruptedAt-8)...)
	return binary.NativeEndian.AppendUint64(b, unique)
}
