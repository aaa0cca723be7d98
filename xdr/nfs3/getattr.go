// GETATTR, SETATTR and ACCESS (RFC 1813 §3.3.1, §3.3.2, §3.3.4).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// An FHArgs has the arguments for procedures with just one handle.
type FHArgs struct{ FH FH }

// EncodeXDR appends the handle.
func (a *FHArgs) EncodeXDR(e *xdr.Encoder) { a.FH.EncodeXDR(e) }

// DecodeXDR reads the handle.
func (a *FHArgs) DecodeXDR(d *xdr.Decoder) { a.FH.DecodeXDR(d) }

// GetattrArgs has GETATTR's arguments.
type GetattrArgs = FHArgs

// A GetattrRes is GETATTR's result. The error arm is empty.
type GetattrRes struct {
	Status Status
	Attr   Fattr
}

// EncodeXDR appends the result.
func (r *GetattrRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	if r.Status == OK {
		r.Attr.EncodeXDR(e)
	}
}

// DecodeXDR reads a result.
func (r *GetattrRes) DecodeXDR(d *xdr.Decoder) {
	if decodeStatus(&r.Status, d); r.Status == OK {
		r.Attr.DecodeXDR(d)
	} else {
		r.Attr = Fattr{}
	}
}

// A SetattrArgs has SETATTR's arguments. With Guard the server acts only if the object's ctime is
// still GuardCtime.
type SetattrArgs struct {
	FH         FH
	Attr       Sattr
	Guard      bool
	GuardCtime Time
}

// EncodeXDR appends the arguments.
func (a *SetattrArgs) EncodeXDR(e *xdr.Encoder) {
	a.FH.EncodeXDR(e)
	a.Attr.EncodeXDR(e)
	e.Bool(a.Guard)
	if a.Guard {
		a.GuardCtime.encode(e)
	}
}

// DecodeXDR reads arguments.
func (a *SetattrArgs) DecodeXDR(d *xdr.Decoder) {
	a.FH.DecodeXDR(d)
	a.Attr.DecodeXDR(d)
	a.GuardCtime = Time{}
	if a.Guard = d.Bool(); a.Guard {
		a.GuardCtime.decode(d)
	}
}

// A WccRes is the result for procedures that return only status, and one object's attributes
// before and after, in both arms.
type WccRes struct {
	Status Status
	Wcc    WccData
}

// EncodeXDR appends the result.
func (r *WccRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Wcc.EncodeXDR(e)
}

// DecodeXDR reads a result.
func (r *WccRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.Wcc.DecodeXDR(d)
}

// SetattrRes is SETATTR's result.
type SetattrRes = WccRes

// An AccessArgs has ACCESS's arguments: the requested Access bits.
type AccessArgs struct {
	FH     FH
	Access uint32
}

// EncodeXDR appends the arguments.
func (a *AccessArgs) EncodeXDR(e *xdr.Encoder) {
	a.FH.EncodeXDR(e)
	e.Uint32(a.Access)
}

// DecodeXDR reads arguments.
func (a *AccessArgs) DecodeXDR(d *xdr.Decoder) {
	a.FH.DecodeXDR(d)
	a.Access = d.Uint32()
}

// An AccessRes is ACCESS's result: the granted bits.
type AccessRes struct {
	Status Status
	Attr   PostOpAttr
	Access uint32
}

// EncodeXDR appends the result.
func (r *AccessRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
	if r.Status == OK {
		e.Uint32(r.Access)
	}
}

// DecodeXDR reads a result.
func (r *AccessRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.Attr.DecodeXDR(d)
	r.Access = 0
	if r.Status == OK {
		r.Access = d.Uint32()
	}
}
