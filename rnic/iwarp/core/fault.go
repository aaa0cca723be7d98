// Faults: the errors that end a stream, and what the peer is told of each.

package core

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// Faults of inbound segments, in the order of the RFCs' tables of codes. Each is found in check
// (inbound_check.go) but for those of memory, which the Memory Region finds.
var (
	errMSN       = term.New(term.DDPMSNRange, "")
	errNoBuffer  = term.New(term.DDPNoBuffer, "no receive posted")
	errNoIRD     = term.New(term.DDPNoBuffer, "more RDMA Reads than the IRD agreed on")
	errMO        = term.New(term.DDPInvalidMO, "")
	errLong      = term.New(term.DDPTooLong, "")
	errMixed     = term.New(term.RDMAPOpcode, "the opcode changed within a message")
	errUnserved  = term.New(term.RDMAPOpcode, "opcode not supported")
	errReadCut   = term.New(term.RDMAPStream, "RDMA Read Request in more than one segment")
	errNoRead    = term.New(term.RDMAPOpcode, "RDMA Read Response with no Read outstanding")
	errWrongSink = term.New(term.DDPInvalidSTag, "RDMA Read Response for another STag")
	errSinkRange = term.New(term.DDPBounds, "RDMA Read Response out of place")
	errInvGone   = term.New(term.RDMAPCannotInvalidate, "")
	errInvOther  = term.New(term.RDMAPForeignInvalidate, "")
	errBadTerm   = errors.New("rnic: malformed Terminate message")

	// Of the messages of RFC 7306.
	errAtomicOp     = term.New(term.RDMAPOpcode, "not an atomic operation")
	errAtomicNone   = term.New(term.RDMAPOpcode, "Atomic Response with no atomic operation outstanding")
	errAtomicID     = term.New(term.RDMAPStream, "Atomic Response to another request")
	errExtensionCut = term.New(term.RDMAPStream, "message in more than one segment")
)

var errNoORD = errors.New("rnic: the peer takes no RDMA Reads on this connection")

// taggedFaults are the codes of a refused RDMA Write or Read Response (RFC 5041
// §7.1). DDP has no code for a right that is not granted.
var taggedFaults = [...]*term.Error{
	rnic.MemSTag:   term.New(term.DDPInvalidSTag, ""),
	rnic.MemAssoc:  term.New(term.DDPSTagNotOfStream, ""),
	rnic.MemAccess: term.New(term.DDPInvalidSTag, "right not granted"),
	rnic.MemWrap:   term.New(term.DDPWrap, ""),
	rnic.MemBounds: term.New(term.DDPBounds, ""),
}

// requestFaults are the codes of a refused Read or atomic operation (RFC 5040 §4.8, RFC 7306 §8.2).
var requestFaults = [...]*term.Error{
	rnic.MemSTag:   term.New(term.RDMAPInvalidSTag, ""),
	rnic.MemAssoc:  term.New(term.RDMAPSTagNotOfStream, ""),
	rnic.MemAccess: term.New(term.RDMAPAccess, ""),
	rnic.MemWrap:   term.New(term.RDMAPWrap, ""),
	rnic.MemBounds: term.New(term.RDMAPBounds, ""),
	rnic.MemAlign:  term.New(term.RDMAPStream, "atomic operation on bytes that are not aligned"),
}

// A Fault is an error with the Terminate that tells the peer of it.
type Fault struct {
	Err  error
	term term.Terminate
}

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap is the error without what the peer is told.
func (f *Fault) Unwrap() error { return f.Err }

// LocalFault is an error of ours that the peer is told of without a reason (RFC 5040 §7.1
// [R5040-188]).
func LocalFault(err error) *Fault {
	return &Fault{Err: err, term: term.Terminate{Code: term.RDMAPLocal}}
}

// segmentFault is an error that was found in a ULPDU of length bytes, of which ulpdu is the
// beginning, with the headers that go back to the peer, by the table of them (RFC 5040 §4.8
// [R5040-086]). An error without a code is returned as it is.
func segmentFault(err error, ulpdu []byte, length int) error {
	var e *term.Error
	if !errors.As(err, &e) {
		return err
	}
	f := &Fault{Err: err, term: term.Terminate{Code: e.Code}}
	hdr := ddp.Terminated(ulpdu)
	if e.Code == term.DDPLocal || hdr == nil { // nil also for faults of MPA, which have no ULPDU
		return f
	}
	f.term.HasSegLen, f.term.SegLen = true, uint16(length)
	f.term.DDP = append([]byte(nil), hdr...)
	isRead := rdmap.Opcode(ulpdu[1]&0x0f) == rdmap.OpReadRequest
	if e.Code.Layer == term.LayerRDMAP && e.Code.EType == 1 && isRead { // RFC 5040 §4.8 [R5040-083]
		f.term.RDMA = append([]byte(nil), ulpdu[ddp.UntaggedLen:]...)
	}
	return f
}

// responseFault is a Read that failed after sent bytes: its request goes back
// with what has been answered taken off (RFC 5040 §4.8 [R5040-085]).
func responseFault(r *answer, sent uint32, f rnic.MemFault) error {
	q := rdmap.ReadRequest{SinkSTag: uint32(r.sinkSTag), SinkTO: r.sinkTO + uint64(sent),
		Size: r.size - sent, SrcSTag: uint32(r.srcSTag), SrcTO: r.srcTO + uint64(sent)}
	err := requestFaults[f]
	return &Fault{Err: err, term: term.Terminate{Code: err.Code, HasSegLen: true,
		SegLen: r.length, DDP: append([]byte(nil), r.ddp[:]...), RDMA: q.Append(nil)}}
}
