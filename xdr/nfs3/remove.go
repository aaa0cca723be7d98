// REMOVE, RMDIR, RENAME and LINK (RFC 1813 §3.3.12 to §3.3.15).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// Arguments and results for REMOVE and RMDIR: a name, and the directory before and after.
type (
	RemoveArgs = DirOpArgs
	RmdirArgs  = DirOpArgs
	RemoveRes  = WccRes
	RmdirRes   = WccRes
)

// A RenameArgs has RENAME's arguments.
type RenameArgs struct{ From, To DirOpArgs }

// EncodeXDR appends the arguments.
func (a *RenameArgs) EncodeXDR(e *xdr.Encoder) {
	a.From.EncodeXDR(e)
	a.To.EncodeXDR(e)
}

// DecodeXDR reads arguments.
func (a *RenameArgs) DecodeXDR(d *xdr.Decoder) {
	a.From.DecodeXDR(d)
	a.To.DecodeXDR(d)
}

// A RenameRes is RENAME's result, the same in both arms.
type RenameRes struct {
	Status         Status
	FromWcc, ToWcc WccData
}

// EncodeXDR appends the result.
func (r *RenameRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.FromWcc.EncodeXDR(e)
	r.ToWcc.EncodeXDR(e)
}

// DecodeXDR reads a result.
func (r *RenameRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.FromWcc.DecodeXDR(d)
	r.ToWcc.DecodeXDR(d)
}

// A LinkArgs has LINK's arguments: the object, and the object's additional name.
type LinkArgs struct {
	FH   FH
	Link DirOpArgs
}

// EncodeXDR appends the arguments.
func (a *LinkArgs) EncodeXDR(e *xdr.Encoder) {
	a.FH.EncodeXDR(e)
	a.Link.EncodeXDR(e)
}

// DecodeXDR reads arguments.
func (a *LinkArgs) DecodeXDR(d *xdr.Decoder) {
	a.FH.DecodeXDR(d)
	a.Link.DecodeXDR(d)
}

// A LinkRes is LINK's result, the same in both arms.
type LinkRes struct {
	Status Status
	Attr   PostOpAttr
	DirWcc WccData
}

// EncodeXDR appends the result.
func (r *LinkRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
	r.DirWcc.EncodeXDR(e)
}

// DecodeXDR reads a result.
func (r *LinkRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.Attr.DecodeXDR(d)
	r.DirWcc.DecodeXDR(d)
}
