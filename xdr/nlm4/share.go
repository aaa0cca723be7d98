// SHARE, UNSHARE and FREE_ALL, which DOS clients call: their arguments and results.

package nlm4

import "github.com/nfsrdma/nfsrdma/xdr"

// Bits in ShareArgs.Mode, which denies access to others (fsh4_mode), and in ShareArgs.Access,
// which requests it (fsh4_access).
const (
	ShareRead  uint32 = 1
	ShareWrite uint32 = 2
)

// A ShareArgs has the arguments for SHARE and UNSHARE (nlm4_shareargs).
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

// DecodeXDR reads the arguments. An invalid mode or access fails with xdr.ErrLimit.
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

// A ShareRes is the result for SHARE and UNSHARE (nlm4_shareres).
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

// A Notify has FREE_ALL's arguments (nlm4_notify): the caller that has restarted.
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
