// GETATTR, SETATTR and ACCESS (RFC 1813 §3.3.1, §3.3.2, §3.3.4).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// An FHArgs is the arguments of the procedures that take one handle and no more.
type FHArgs struct{ FH FH }

// EncodeXDR appends the handle.
func (a *FHArgs) EncodeXDR(e *xdr.Encoder) { a.FH.EncodeXDR(e) }

// DecodeXDR reads the handle.
func (a *FHArgs) DecodeXDR(d *xdr.Decoder) { a.FH.DecodeXDR(d) }

// GetattrArgs is the arguments of GETATTR.
type GetattrArgs = FHArgs

// A GetattrRes is the result of GETATTR. Its error arm is empty.
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

// A SetattrArgs is the arguments of SETATTR. With Guard the server does nothing
// unless the object's ctime still is GuardCtime.
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

// A WccRes is the result of the procedures that tell only the status and the
// attributes of one object before and after, in both arms.
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

// SetattrRes is the result of SETATTR.
type SetattrRes = WccRes

// An AccessArgs is the arguments of ACCESS: which Access bits are asked for.
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

// An AccessRes is the result of ACCESS: which of the bits are allowed.
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
