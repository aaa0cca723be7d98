// Arguments and results of GETACL and SETACL, and how large a reply can be.

package nfsacl3

import (
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// MaxReply is the most bytes of a result, RPC header not: status, attributes, mask, and two lists
// of MaxEntries. The size of a GETACL's reply is not known to who calls, so over RDMA a Reply chunk
// has to be as large, or as its caller is content with (RFC 8267 §5).
const MaxReply = 4 + 4 + 84 + 4 + 2*(4+4+MaxEntries*entrySize)

// A GetACLArgs is the arguments of GETACL: the object, and what of Mask is asked for.
type GetACLArgs struct {
	FH   nfs3.FH
	Mask uint32
}

// EncodeXDR appends the arguments.
func (a *GetACLArgs) EncodeXDR(e *xdr.Encoder) {
	a.FH.EncodeXDR(e)
	e.Uint32(a.Mask)
}

// DecodeXDR reads arguments, with any mask.
func (a *GetACLArgs) DecodeXDR(d *xdr.Decoder) {
	a.FH.DecodeXDR(d)
	a.Mask = d.Uint32()
}

// Object is the object that the call is about.
func (a *GetACLArgs) Object() *nfs3.FH { return &a.FH }

// A GetACLRes is the result of GETACL.
type GetACLRes struct {
	Status nfs3.Status
	Attr   nfs3.PostOpAttr
	ACLs   ACLs
}

// EncodeXDR appends the result.
func (r *GetACLRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
	if r.Status == nfs3.OK {
		r.ACLs.EncodeXDR(e)
	}
}

// DecodeXDR reads a result.
func (r *GetACLRes) DecodeXDR(d *xdr.Decoder) {
	r.Status = nfs3.Status(d.Uint32())
	r.Attr.DecodeXDR(d)
	r.ACLs = ACLs{}
	if r.Status == nfs3.OK {
		r.ACLs.DecodeXDR(d)
	}
}

// SetStatus sets the status.
func (r *GetACLRes) SetStatus(s nfs3.Status) { r.Status = s }

// A SetACLArgs is the arguments of SETACL: those of the lists that ACLs.Mask names are set, an
// empty one is taken away.
type SetACLArgs struct {
	FH   nfs3.FH
	ACLs ACLs
}

// EncodeXDR appends the arguments.
func (a *SetACLArgs) EncodeXDR(e *xdr.Encoder) {
	a.FH.EncodeXDR(e)
	a.ACLs.EncodeXDR(e)
}

// DecodeXDR reads arguments.
func (a *SetACLArgs) DecodeXDR(d *xdr.Decoder) {
	a.FH.DecodeXDR(d)
	a.ACLs.DecodeXDR(d)
}

// Object is the object that the call is about.
func (a *SetACLArgs) Object() *nfs3.FH { return &a.FH }

// A SetACLRes is the result of SETACL.
type SetACLRes struct {
	Status nfs3.Status
	Attr   nfs3.PostOpAttr
}

// EncodeXDR appends the result.
func (r *SetACLRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
}

// DecodeXDR reads a result.
func (r *SetACLRes) DecodeXDR(d *xdr.Decoder) {
	r.Status = nfs3.Status(d.Uint32())
	r.Attr.DecodeXDR(d)
}

// SetStatus sets the status.
func (r *SetACLRes) SetStatus(s nfs3.Status) { r.Status = s }
