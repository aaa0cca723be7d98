// SHARE, UNSHARE and FREE_ALL: the arguments and results of what DOS clients call.

package nlm4

import "github.com/nfsrdma/nfsrdma/xdr"

// Bits of ShareArgs.Mode, what is denied to others (fsh4_mode), and of
// ShareArgs.Access, what the caller wants (fsh4_access).
const (
	ShareRead  uint32 = 1
	ShareWrite uint32 = 2
)

// A ShareArgs is the arguments of SHARE and UNSHARE (nlm4_shareargs).
type ShareArgs struct {
	Cookie       []byte
	Caller       []byte
	FH           []byte
	Owner        []byte
	Mode, Access uint32 // 0 to 3
	Reclaim      bool
}

// EncodeXDR appends the arguments.
func (a *ShareArgs) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(a.Cookie)
	e.Opaque(a.Caller)
	e.Opaque(a.FH)
	e.Opaque(a.Owner)
	e.Uint32(a.Mode)
	e.Uint32(a.Access)
	e.Bool(a.Reclaim)
}

// DecodeXDR reads the arguments. A mode or an access that is none fails with xdr.ErrLimit.
func (a *ShareArgs) DecodeXDR(d *xdr.Decoder) {
	a.Cookie = d.Opaque(MaxObject)
	a.Caller = d.Opaque(MaxName)
	a.FH = d.Opaque(MaxObject)
	a.Owner = d.Opaque(MaxObject)
	a.Mode = d.Uint32()
	a.Access = d.Uint32()
	a.Reclaim = d.Bool()
	if (a.Mode|a.Access)&^(ShareRead|ShareWrite) != 0 {
		d.Fail(xdr.ErrLimit)
	}
}

// A ShareRes is the result of SHARE and UNSHARE (nlm4_shareres).
type ShareRes struct {
	Cookie   []byte
	Status   Status
	Sequence int32
}

// EncodeXDR appends the result.
func (r *ShareRes) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(r.Cookie)
	e.Uint32(uint32(r.Status))
	e.Int32(r.Sequence)
}

// DecodeXDR reads a result.
func (r *ShareRes) DecodeXDR(d *xdr.Decoder) {
	r.Cookie = d.Opaque(MaxObject)
	r.Status = Status(d.Uint32())
	r.Sequence = d.Int32()
}

// A Notify is the arguments of FREE_ALL (nlm4_notify): the caller that has started again.
type Notify struct {
	Name  []byte
	State int32
}

// EncodeXDR appends the arguments.
func (n *Notify) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(n.Name)
	e.Int32(n.State)
}

// DecodeXDR reads the arguments.
func (n *Notify) DecodeXDR(d *xdr.Decoder) {
	n.Name = d.Opaque(MaxName + 1)
	n.State = d.Int32()
}
