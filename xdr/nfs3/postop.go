// Optional attributes and handles in results (post_op_attr, wcc_data, post_op_fh3; RFC 1813 §2.6).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A PostOpAttr has an object's attributes after an operation, if the server sends them.
type PostOpAttr struct {
	Present bool
	Attr    Fattr
}

// EncodeXDR appends the optional attributes: 4 or 88 bytes.
func (p *PostOpAttr) EncodeXDR(e *xdr.Encoder) {
	e.Bool(p.Present)
	if p.Present {
		p.Attr.EncodeXDR(e)
	}
}

// DecodeXDR reads optional attributes.
func (p *PostOpAttr) DecodeXDR(d *xdr.Decoder) {
	if p.Present = d.Bool(); p.Present {
		p.Attr.DecodeXDR(d)
	} else {
		p.Attr = Fattr{}
	}
}

// A WccAttr has the size and times before an operation, with which a client checks its cache
// (wcc_attr), 24 bytes.
type WccAttr struct {
	Size  uint64
	Mtime Time
	Ctime Time
}

// Wcc returns the attributes' weak cache consistency part.
func (a *Fattr) Wcc() WccAttr { return WccAttr{Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime} }

// A PreOpAttr is the WccAttr before an operation, if the server sends one.
type PreOpAttr struct {
	Present bool
	Attr    WccAttr
}

// EncodeXDR appends the optional attributes: 4 or 28 bytes.
func (p *PreOpAttr) EncodeXDR(e *xdr.Encoder) {
	e.Bool(p.Present)
	if p.Present {
		e.Uint64(p.Attr.Size)
		p.Attr.Mtime.encode(e)
		p.Attr.Ctime.encode(e)
	}
}

// DecodeXDR reads optional attributes.
func (p *PreOpAttr) DecodeXDR(d *xdr.Decoder) {
	p.Attr = WccAttr{}
	if p.Present = d.Bool(); p.Present {
		p.Attr.Size = d.Uint64()
		p.Attr.Mtime.decode(d)
		p.Attr.Ctime.decode(d)
	}
}

// A WccData has the attributes before and after an operation (wcc_data).
type WccData struct {
	Before PreOpAttr
	After  PostOpAttr
}

// EncodeXDR appends both attributes: 8 to 116 bytes.
func (w *WccData) EncodeXDR(e *xdr.Encoder) {
	w.Before.EncodeXDR(e)
	w.After.EncodeXDR(e)
}

// DecodeXDR reads both attributes.
func (w *WccData) DecodeXDR(d *xdr.Decoder) {
	w.Before.DecodeXDR(d)
	w.After.DecodeXDR(d)
}

// A PostOpFH is a new or named object's handle, if the server sends a handle (post_op_fh3).
type PostOpFH struct {
	Present bool
	FH      FH
}

// EncodeXDR appends the optional handle: 4 to 72 bytes.
func (p *PostOpFH) EncodeXDR(e *xdr.Encoder) {
	e.Bool(p.Present)
	if p.Present {
		p.FH.EncodeXDR(e)
	}
}

// DecodeXDR reads an optional handle.
func (p *PostOpFH) DecodeXDR(d *xdr.Decoder) {
	if p.Present = d.Bool(); p.Present {
		p.FH.DecodeXDR(d)
	} else {
		p.FH = FH{}
	}
}

// decodeVerf reads a verifier.
func decodeVerf(v *Verf, d *xdr.Decoder) {
	if copy(v[:], d.Fixed(verfSize)) == 0 {
		*v = Verf{}
	}
}

// decodeStatus reads a status word. It accepts values without a name: all results' unions have a
// default arm.
func decodeStatus(s *Status, d *xdr.Decoder) { *s = Status(d.Uint32()) }
