// WRITE and COMMIT (RFC 1813 §3.3.7, §3.3.21).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A WriteArgs has WRITE's arguments. Data may travel as a Read chunk (RFC 8267 §2.1): encoding
// keeps the slice until the message has been sent, and decoded Data aliases the message or its
// detached item. The wire has Count and the length of Data separately; the server checks that
// they are equal.
type WriteArgs struct {
	FH     FH
	Offset uint64
	Count  uint32 // bytes
	Stable StableHow
	Data   []byte
}

// EncodeXDR appends the arguments, Data as an item.
func (a *WriteArgs) EncodeXDR(e *xdr.Encoder) {
	a.FH.EncodeXDR(e)
	e.Uint64(a.Offset)
	e.Uint32(a.Count)
	e.Uint32(uint32(a.Stable))
	e.Item(a.Data)
}

// DecodeXDR reads arguments; an invalid stable_how fails with xdr.ErrValue.
func (a *WriteArgs) DecodeXDR(d *xdr.Decoder) {
	a.FH.DecodeXDR(d)
	a.Offset = d.Uint64()
	a.Count = d.Uint32()
	decodeStable(&a.Stable, d)
	a.Data = d.Item(maxData)
}

func decodeStable(s *StableHow, d *xdr.Decoder) {
	if *s = StableHow(d.Uint32()); *s > FileSync {
		d.Fail(xdr.ErrValue)
	}
}

// A WriteRes is WRITE's result. The error arm has Wcc.
type WriteRes struct {
	Status    Status
	Wcc       WccData
	Count     uint32    // bytes written
	Committed StableHow // at least the requested level
	Verf      Verf      // changes if the server may have lost unstable data
}

// EncodeXDR appends the result.
func (r *WriteRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Wcc.EncodeXDR(e)
	if r.Status == OK {
		e.Uint32(r.Count)
		e.Uint32(uint32(r.Committed))
		e.Fixed(r.Verf[:])
	}
}

// DecodeXDR reads a result.
func (r *WriteRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.Wcc.DecodeXDR(d)
	r.Count, r.Committed, r.Verf = 0, 0, Verf{}
	if r.Status == OK {
		r.Count = d.Uint32()
		decodeStable(&r.Committed, d)
		decodeVerf(&r.Verf, d)
	}
}

// CommitArgs has COMMIT's arguments: the same as READ's; a Count of 0 means to the end of the
// file.
type CommitArgs = ReadArgs

// A CommitRes is COMMIT's result. The error arm has Wcc.
type CommitRes struct {
	Status Status
	Wcc    WccData
	Verf   Verf
}

// EncodeXDR appends the result.
func (r *CommitRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Wcc.EncodeXDR(e)
	if r.Status == OK {
		e.Fixed(r.Verf[:])
	}
}

// DecodeXDR reads a result.
func (r *CommitRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.Wcc.DecodeXDR(d)
	r.Verf = Verf{}
	if r.Status == OK {
		decodeVerf(&r.Verf, d)
	}
}
