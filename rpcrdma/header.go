// The RPC-over-RDMA version 1 header: layout, Parse and Append (RFC 8166 §4).

package rpcrdma

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
)

// Layout (RFC 8166 §4.1, §4.2), all words big-endian:
//
//	offset  size  field
//	0       4     rdma_xid, that of the RPC message
//	4       4     rdma_vers, 1
//	8       4     rdma_credit, wanted in a Call, granted in a Reply
//	12      4     rdma_proc
//	16            RDMA_MSG, RDMA_NOMSG: Read list, Write list, Reply chunk;
//	              after those of RDMA_MSG the RPC message
//	16      4     RDMA_ERROR: rdma_err
//	20      4       ERR_VERS: lowest version spoken
//	24      4       ERR_VERS: highest version spoken
//	16      4     RDMA_MSGP: rdma_align
//	20      4       rdma_thresh, then as RDMA_MSG
//	              RDMA_DONE: nothing
const (
	fixedLen    = chunks.FixedSize     // the words that every version has (RFC 8166 §7 [R8166-196])
	minCallLen  = chunks.MinHeaderSize // no Call is shorter (RFC 8166 §4.5 [R8166-146])
	errChunkLen = 20
	errVersLen  = 28
	version     = 1
	rpcMinLen   = 8 // XID and direction
)

// A Proc is the kind of a message.
type Proc uint32

// The kinds of messages (RFC 8166 §4.1.2 [R8166-098]). MSGP and DONE are never sent (RFC 8166
// §4.6.1 [R8166-171], RFC 8166 §4.6.2 [R8166-174]).
const (
	ProcMsg   Proc = iota // RPC message inline
	ProcNoMsg             // RPC message in a Position-zero Read chunk or Reply chunk
	procMsgP              // obsolete
	procDone              // obsolete
	ProcError             // the call could not be taken
)

func (p Proc) String() string {
	names := [...]string{"RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE", "RDMA_ERROR"}
	if int64(p) < int64(len(names)) {
		return names[p]
	}
	return fmt.Sprintf("rdma_proc(%d)", uint32(p))
}

// An ErrCode says why a call could not be taken.
type ErrCode uint32

// The error codes (RFC 8166 §4.1.2 [R8166-099]).
const (
	CodeVers  ErrCode = 1 // ERR_VERS
	CodeChunk ErrCode = 2 // ERR_CHUNK
)

func (e ErrCode) String() string {
	switch e {
	case CodeVers:
		return "ERR_VERS"
	case CodeChunk:
		return "ERR_CHUNK"
	}
	return fmt.Sprintf("rdma_err(%d)", uint32(e))
}

// Parse errors, in addition to those of chunks.Lists.Parse. After any of these errors except
// errHeaderShort, the fixed words are set.
var (
	errHeaderShort   = errors.New("rpcrdma: message is shorter than a header")
	errHeaderVersion = errors.New("rpcrdma: version is not 1")
	errHeaderProc    = errors.New("rpcrdma: unknown or obsolete rdma_proc")
	errHeaderError   = errors.New("rpcrdma: malformed RDMA_ERROR")
)

// A Header is the transport header of one message. Parse reuses the space of its lists, so one
// Header can parse any number of messages without allocation.
type Header struct {
	XID     uint32
	Version uint32
	Credits uint32
	Proc    Proc

	chunks.Lists // ProcMsg, ProcNoMsg

	Err       ErrCode // ProcError
	Low, High uint32  // ProcError with CodeVers

	Len int // bytes of the header, as parsed
}

// Parse reads the header at the start of b. On an error the fixed words are valid if b holds them;
// the lists are not.
//
// It parses an RDMA_ERROR with any version, because the error repeats the call's version (RFC 8166
// §4.5 [R8166-151], RFC 8166 §7 [R8166-196]).
func (h *Header) Parse(b []byte) error {
	h.reset()
	if len(b) < fixedLen {
		return errHeaderShort
	}
	h.XID = binary.BigEndian.Uint32(b)
	h.Version = binary.BigEndian.Uint32(b[4:])
	h.Credits = binary.BigEndian.Uint32(b[8:])
	h.Proc = Proc(binary.BigEndian.Uint32(b[12:]))
	if h.Proc == ProcError {
		return h.parseError(b)
	}
	if h.Version != version {
		return errHeaderVersion
	}
	switch h.Proc {
	case ProcMsg, ProcNoMsg:
		rest, err := h.Lists.Parse(b[fixedLen:])
		h.Len = len(b) - len(rest)
		return err
	case procDone:
		h.Len = fixedLen
		return nil
	}
	return errHeaderProc
}

func (h *Header) parseError(b []byte) error {
	if len(b) < errChunkLen {
		return errHeaderError
	}
	h.Err = ErrCode(binary.BigEndian.Uint32(b[fixedLen:]))
	switch {
	case h.Err == CodeChunk && h.Version == version:
		h.Len = errChunkLen
		return nil
	case h.Err == CodeVers && len(b) >= errVersLen:
		h.Low = binary.BigEndian.Uint32(b[20:])
		h.High = binary.BigEndian.Uint32(b[24:])
		h.Len = errVersLen
		return nil
	}
	return errHeaderError // unknown code, or truncated (RFC 8166 §4.5 [R8166-155])
}

func (h *Header) reset() {
	h.Lists.Reset()
	h.XID, h.Version, h.Credits, h.Proc = 0, 0, 0, 0
	h.Err, h.Low, h.High, h.Len = 0, 0, 0, 0
}

// Append appends the header's bytes.
func (h *Header) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, h.XID)
	b = binary.BigEndian.AppendUint32(b, h.Version)
	b = binary.BigEndian.AppendUint32(b, h.Credits)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Proc))
	switch h.Proc {
	case ProcMsg, ProcNoMsg:
		b = h.Lists.Append(b)
	case ProcError:
		b = binary.BigEndian.AppendUint32(b, uint32(h.Err))
		if h.Err == CodeVers {
			b = binary.BigEndian.AppendUint32(b, h.Low)
			b = binary.BigEndian.AppendUint32(b, h.High)
		}
	}
	return b
}

// Size returns the number of bytes that Append appends (RFC 8166 §4.1.2 [R8166-101 R8166-102]).
func (h *Header) Size() int {
	switch {
	case h.Proc == ProcMsg || h.Proc == ProcNoMsg:
		return fixedLen + h.Lists.Size()
	case h.Proc == ProcError && h.Err == CodeVers:
		return errVersLen
	case h.Proc == ProcError:
		return errChunkLen
	}
	return fixedLen
}
