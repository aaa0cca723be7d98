// Arguments and results for GETACL and SETACL, and the largest reply.

package nfsacl3

import (
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// MaxReply is the largest result in bytes, without the RPC header: status, attributes, mask, and
// two lists of MaxEntries. A caller does not know the size of GETACL's reply. So over RDMA the
// Reply chunk must have room for MaxReply, or for the largest reply that the caller accepts (RFC
// 8267 §5).
const MaxReply = 4 + 4 + 84 + 4 + 2*(4+4+MaxEntries*entrySize)

// A GetACLArgs has GETACL's arguments: the object, and the requested Mask bits.
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

// Object returns the call's object.
func (a *GetACLArgs) Object() *nfs3.FH { return &a.FH }

// A GetACLRes is GETACL's result.
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

// A SetACLArgs has SETACL's arguments: the lists named by ACLs.Mask are set; an empty list removes
// the object's list.
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

// Object returns the call's object.
func (a *SetACLArgs) Object() *nfs3.FH { return &a.FH }

// A SetACLRes is SETACL's result.
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
