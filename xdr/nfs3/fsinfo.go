// FSSTAT, FSINFO and PATHCONF (RFC 1813 §3.3.18 to §3.3.20).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// Arguments of FSSTAT, FSINFO and PATHCONF: one handle.
type (
	FsstatArgs   = FHArgs
	FsinfoArgs   = FHArgs
	PathconfArgs = FHArgs
)

// An FsstatRes is FSSTAT's result. The error arm has Attr.
type FsstatRes struct {
	Status Status
	Attr   PostOpAttr
	Tbytes uint64 // total bytes
	Fbytes uint64 // free
	Abytes uint64 // free for the caller
	Tfiles uint64 // total file slots
	Ffiles uint64
	Afiles uint64
	// Invarsec is the number of seconds for which the values should stay unchanged.
	Invarsec uint32
}

// EncodeXDR appends the result.
func (r *FsstatRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
	if r.Status != OK {
		return
	}
	e.Uint64(r.Tbytes)
	e.Uint64(r.Fbytes)
	e.Uint64(r.Abytes)
	e.Uint64(r.Tfiles)
	e.Uint64(r.Ffiles)
	e.Uint64(r.Afiles)
	e.Uint32(r.Invarsec)
}

// DecodeXDR reads a result.
func (r *FsstatRes) DecodeXDR(d *xdr.Decoder) {
	*r = FsstatRes{}
	decodeStatus(&r.Status, d)
	r.Attr.DecodeXDR(d)
	if r.Status != OK {
		return
	}
	r.Tbytes = d.Uint64()
	r.Fbytes = d.Uint64()
	r.Abytes = d.Uint64()
	r.Tfiles = d.Uint64()
	r.Ffiles = d.Uint64()
	r.Afiles = d.Uint64()
	r.Invarsec = d.Uint32()
}

// An FsinfoRes is FSINFO's result; sizes in bytes. The error arm has Attr.
type FsinfoRes struct {
	Status      Status
	Attr        PostOpAttr
	Rtmax       uint32 // most READ data
	Rtpref      uint32
	Rtmult      uint32
	Wtmax       uint32 // most WRITE data
	Wtpref      uint32
	Wtmult      uint32
	Dtpref      uint32 // preferred READDIR count
	Maxfilesize uint64
	TimeDelta   Time   // time stamp granularity
	Properties  uint32 // FSF bits
}

// EncodeXDR appends the result.
func (r *FsinfoRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
	if r.Status != OK {
		return
	}
	e.Uint32(r.Rtmax)
	e.Uint32(r.Rtpref)
	e.Uint32(r.Rtmult)
	e.Uint32(r.Wtmax)
	e.Uint32(r.Wtpref)
	e.Uint32(r.Wtmult)
	e.Uint32(r.Dtpref)
	e.Uint64(r.Maxfilesize)
	r.TimeDelta.encode(e)
	e.Uint32(r.Properties)
}

// DecodeXDR reads a result.
func (r *FsinfoRes) DecodeXDR(d *xdr.Decoder) {
	*r = FsinfoRes{}
	decodeStatus(&r.Status, d)
	r.Attr.DecodeXDR(d)
	if r.Status != OK {
		return
	}
	r.Rtmax = d.Uint32()
	r.Rtpref = d.Uint32()
	r.Rtmult = d.Uint32()
	r.Wtmax = d.Uint32()
	r.Wtpref = d.Uint32()
	r.Wtmult = d.Uint32()
	r.Dtpref = d.Uint32()
	r.Maxfilesize = d.Uint64()
	r.TimeDelta.decode(d)
	r.Properties = d.Uint32()
}

// A PathconfRes is PATHCONF's result. The error arm has Attr.
type PathconfRes struct {
	Status          Status
	Attr            PostOpAttr
	Linkmax         uint32
	NameMax         uint32 // bytes
	NoTrunc         bool   // longer names are refused, not truncated
	ChownRestricted bool
	CaseInsensitive bool
	CasePreserving  bool
}

// EncodeXDR appends the result.
func (r *PathconfRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
	if r.Status != OK {
		return
	}
	e.Uint32(r.Linkmax)
	e.Uint32(r.NameMax)
	e.Bool(r.NoTrunc)
	e.Bool(r.ChownRestricted)
	e.Bool(r.CaseInsensitive)
	e.Bool(r.CasePreserving)
}

// DecodeXDR reads a result.
func (r *PathconfRes) DecodeXDR(d *xdr.Decoder) {
	*r = PathconfRes{}
	decodeStatus(&r.Status, d)
	r.Attr.DecodeXDR(d)
	if r.Status != OK {
		return
	}
	r.Linkmax = d.Uint32()
	r.NameMax = d.Uint32()
	r.NoTrunc = d.Bool()
	r.ChownRestricted = d.Bool()
	r.CaseInsensitive = d.Bool()
	r.CasePreserving = d.Bool()
}
