// LOOKUP and READLINK (RFC 1813 §3.3.3, §3.3.5).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A DirOpArgs is a name in a directory (diropargs3). A decoded Name aliases the message.
type DirOpArgs struct {
	Dir  FH
	Name []byte
}

// EncodeXDR appends handle and name.
func (a *DirOpArgs) EncodeXDR(e *xdr.Encoder) {
	a.Dir.EncodeXDR(e)
	e.Opaque(a.Name)
}

// DecodeXDR reads handle and name; a name over MaxName fails with xdr.ErrLimit.
func (a *DirOpArgs) DecodeXDR(d *xdr.Decoder) {
	a.Dir.DecodeXDR(d)
	a.Name = d.Opaque(MaxName)
}

// LookupArgs has LOOKUP's arguments.
type LookupArgs = DirOpArgs

// A LookupRes is LOOKUP's result. The error arm has DirAttr.
type LookupRes struct {
	Status  Status
	FH      FH
	Attr    PostOpAttr
	DirAttr PostOpAttr
}

// EncodeXDR appends the result.
func (r *LookupRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	if r.Status == OK {
		r.FH.EncodeXDR(e)
		r.Attr.EncodeXDR(e)
	}
	r.DirAttr.EncodeXDR(e)
}

// DecodeXDR reads a result.
func (r *LookupRes) DecodeXDR(d *xdr.Decoder) {
	if decodeStatus(&r.Status, d); r.Status == OK {
		r.FH.DecodeXDR(d)
		r.Attr.DecodeXDR(d)
	} else {
		r.FH, r.Attr = FH{}, PostOpAttr{}
	}
	r.DirAttr.DecodeXDR(d)
}

// ReadlinkArgs has READLINK's arguments.
type ReadlinkArgs = FHArgs

// A ReadlinkRes is READLINK's result. Path may travel as a Write chunk (RFC 8267 §2.1): encoding
// keeps the slice, and a decoded Path aliases the message or its detached item. The error arm has
// Attr.
type ReadlinkRes struct {
	Status Status
	Attr   PostOpAttr
	Path   []byte
}

// EncodeXDR appends the result, Path as an item.
func (r *ReadlinkRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
	if r.Status == OK {
		e.Item(r.Path)
	}
}

// DecodeXDR reads a result; a path over MaxPath fails with xdr.ErrLimit.
func (r *ReadlinkRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.Attr.DecodeXDR(d)
	r.Path = nil
	if r.Status == OK {
		r.Path = d.Item(MaxPath)
	}
}
