// Faults: the errors that end a stream, and their reports to the peer.

package core

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// Faults of inbound segments, in the order of the RFCs' code tables. check (inbound_segment.go)
// finds them all, except memory faults, which the Memory Region finds.
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

	// Faults in messages of RFC 7306.
	errAtomicOp     = term.New(term.RDMAPOpcode, "not an atomic operation")
	errAtomicNone   = term.New(term.RDMAPOpcode, "Atomic Response with no atomic operation outstanding")
	errAtomicID     = term.New(term.RDMAPStream, "Atomic Response to another request")
	errExtensionCut = term.New(term.RDMAPStream, "message in more than one segment")
)

var errNoORD = errors.New("rnic: the peer takes no RDMA Reads on this connection")

// taggedFaults has the codes for a refused RDMA Write or Read Response (RFC 5041 §7.1). DDP has no
// code for a missing right.
var taggedFaults = [...]*term.Error{
	rnic.MemSTag:   term.New(term.DDPInvalidSTag, ""),
	rnic.MemAssoc:  term.New(term.DDPSTagNotOfStream, ""),
	rnic.MemAccess: term.New(term.DDPInvalidSTag, "right not granted"),
	rnic.MemWrap:   term.New(term.DDPWrap, ""),
	rnic.MemBounds: term.New(term.DDPBounds, ""),
}

// requestFaults has the codes for a refused Read or atomic operation (RFC 5040 §4.8, RFC 7306
// §8.2).
var requestFaults = [...]*term.Error{
	rnic.MemSTag:   term.New(term.RDMAPInvalidSTag, ""),
	rnic.MemAssoc:  term.New(term.RDMAPSTagNotOfStream, ""),
	rnic.MemAccess: term.New(term.RDMAPAccess, ""),
	rnic.MemWrap:   term.New(term.RDMAPWrap, ""),
	rnic.MemBounds: term.New(term.RDMAPBounds, ""),
	rnic.MemAlign:  term.New(term.RDMAPStream, "atomic operation on bytes that are not aligned"),
}

// A Fault is an error together with the Terminate for the peer.
type Fault struct {
	Err  error
	term term.Terminate
}

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the error without the Terminate.
func (f *Fault) Unwrap() error { return f.Err }

// LocalFault returns a local error, reported to the peer without a reason (RFC 5040 §7.1
// [R5040-188]).
func LocalFault(err error) *Fault {
	return &Fault{Err: err, term: term.Terminate{Code: term.RDMAPLocal}}
}

// segmentFault returns a fault for an error found in a ULPDU with length bytes, beginning with
// ulpdu. The fault includes the headers that go back to the peer, by the RFC's table (RFC 5040 §4.8
// [R5040-086]). An error without a code is returned unchanged.
func segmentFault(err error, ulpdu []byte, length int) error {
	var e *term.Error
	if !errors.As(err, &e) {
		return err
	}
	f := &Fault{Err: err, term: term.Terminate{Code: e.Code}}
	hdr := ddp.Terminated(ulpdu)
	if e.Code == term.DDPLocal || hdr == nil { // nil also for MPA faults, which have no ULPDU
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

// responseFault returns the fault for a Read that failed after sent bytes: its request goes back
// without the part already answered (RFC 5040 §4.8 [R5040-085]).
func responseFault(r *peerRequest, sent uint32, f rnic.MemFault) error {
	q := rdmap.ReadRequest{SinkSTag: uint32(r.sinkSTag), SinkTO: r.sinkTO + uint64(sent),
		Size: r.size - sent, SrcSTag: uint32(r.srcSTag), SrcTO: r.srcTO + uint64(sent)}
	err := requestFaults[f]
	return &Fault{Err: err, term: term.Terminate{Code: err.Code, HasSegLen: true,
		SegLen: r.length, DDP: append([]byte(nil), r.ddp[:]...), RDMA: q.Append(nil)}}
}
