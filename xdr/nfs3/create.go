// CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813 §3.3.8 to §3.3.11).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A CreateArgs has CREATE's arguments. Unchecked and Guarded use Attr, Exclusive uses Verf.
type CreateArgs struct {
	Where DirOpArgs
	Mode  CreateMode
	Attr  Sattr
	Verf  Verf
}

// EncodeXDR appends the arguments.
func (a *CreateArgs) EncodeXDR(e *xdr.Encoder) {
	a.Where.EncodeXDR(e)
	e.Uint32(uint32(a.Mode))
	if a.Mode == Exclusive {
		e.Fixed(a.Verf[:])
	} else {
		a.Attr.EncodeXDR(e)
	}
}

// DecodeXDR reads arguments; an invalid createmode fails with xdr.ErrValue.
func (a *CreateArgs) DecodeXDR(d *xdr.Decoder) {
	a.Where.DecodeXDR(d)
	a.Mode = CreateMode(d.Uint32())
	a.Attr, a.Verf = Sattr{}, Verf{}
	switch a.Mode {
	case Unchecked, Guarded:
		a.Attr.DecodeXDR(d)
	case Exclusive:
		decodeVerf(&a.Verf, d)
	default:
		d.Fail(xdr.ErrValue)
	}
}

// A CreateRes is the result for CREATE, MKDIR, SYMLINK and MKNOD. The error arm has DirWcc.
type CreateRes struct {
	Status Status
	FH     PostOpFH
	Attr   PostOpAttr
	DirWcc WccData
}

// Results with the same form.
type (
	MkdirRes   = CreateRes
	SymlinkRes = CreateRes
	MknodRes   = CreateRes
)

// EncodeXDR appends the result.
func (r *CreateRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	if r.Status == OK {
		r.FH.EncodeXDR(e)
		r.Attr.EncodeXDR(e)
	}
	r.DirWcc.EncodeXDR(e)
}

// DecodeXDR reads a result.
func (r *CreateRes) DecodeXDR(d *xdr.Decoder) {
	if decodeStatus(&r.Status, d); r.Status == OK {
		r.FH.DecodeXDR(d)
		r.Attr.DecodeXDR(d)
	} else {
		r.FH, r.Attr = PostOpFH{}, PostOpAttr{}
	}
	r.DirWcc.DecodeXDR(d)
}

// A MkdirArgs has MKDIR's arguments.
type MkdirArgs struct {
	Where DirOpArgs
	Attr  Sattr
}

// EncodeXDR appends the arguments.
func (a *MkdirArgs) EncodeXDR(e *xdr.Encoder) {
	a.Where.EncodeXDR(e)
	a.Attr.EncodeXDR(e)
}

// DecodeXDR reads arguments.
func (a *MkdirArgs) DecodeXDR(d *xdr.Decoder) {
	a.Where.DecodeXDR(d)
	a.Attr.DecodeXDR(d)
}

// A SymlinkArgs has SYMLINK's arguments. Path may travel as a Read chunk (RFC 8267 §2.1):
// encoding keeps the slice, and a decoded Path aliases the message or its detached item.
type SymlinkArgs struct {
	Where DirOpArgs
	Attr  Sattr
	Path  []byte
}

// EncodeXDR appends the arguments, Path as an item.
func (a *SymlinkArgs) EncodeXDR(e *xdr.Encoder) {
	a.Where.EncodeXDR(e)
	a.Attr.EncodeXDR(e)
	e.Item(a.Path)
}

// DecodeXDR reads arguments; a path over MaxPath fails with xdr.ErrLimit.
func (a *SymlinkArgs) DecodeXDR(d *xdr.Decoder) {
	a.Where.DecodeXDR(d)
	a.Attr.DecodeXDR(d)
	a.Path = d.Item(MaxPath)
}

// A MknodArgs has MKNOD's arguments. Devices, sockets and FIFOs use Attr, devices also Rdev. Other
// types use neither, and the server refuses such types (ErrBadType).
type MknodArgs struct {
	Where DirOpArgs
	Type  FileType
	Attr  Sattr
	Rdev  Specdata
}

// EncodeXDR appends the arguments.
func (a *MknodArgs) EncodeXDR(e *xdr.Encoder) {
	a.Where.EncodeXDR(e)
	e.Uint32(uint32(a.Type))
	switch a.Type {
	case TypeChr, TypeBlk:
		a.Attr.EncodeXDR(e)
		a.Rdev.encode(e)
	case TypeSock, TypeFIFO:
		a.Attr.EncodeXDR(e)
	}
}

// DecodeXDR reads arguments.
func (a *MknodArgs) DecodeXDR(d *xdr.Decoder) {
	a.Where.DecodeXDR(d)
	a.Type.decode(d)
	a.Attr, a.Rdev = Sattr{}, Specdata{}
	switch a.Type {
	case TypeChr, TypeBlk:
		a.Attr.DecodeXDR(d)
		a.Rdev.decode(d)
	case TypeSock, TypeFIFO:
		a.Attr.DecodeXDR(d)
	}
}
