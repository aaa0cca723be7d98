// The procedures' arguments and results (RFC 1813 §6.1, §6.2).

package nlm4

import "github.com/nfsrdma/nfsrdma/xdr"

// A Lock identifies a lock (nlm4_lock): Length bytes from Offset in file FH, for the owner named
// by Caller, Owner and Svid together. Length 0 means to the end of the file.
type Lock struct {
	Caller         []byte
	FH             []byte
	Owner          []byte
	Svid           int32
	Offset, Length uint64
}

// EncodeXDR appends the lock.
func (l *Lock) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(l.Caller)
	e.Opaque(l.FH)
	e.Opaque(l.Owner)
	e.Int32(l.Svid)
	e.Uint64(l.Offset)
	e.Uint64(l.Length)
}

// DecodeXDR reads a lock.
func (l *Lock) DecodeXDR(d *xdr.Decoder) {
	l.Caller = d.Opaque(MaxName)
	l.FH = d.Opaque(MaxObject)
	l.Owner = d.Opaque(MaxObject)
	l.Svid = d.Int32()
	l.Offset = d.Uint64()
	l.Length = d.Uint64()
}

// A Holder is the owner of a conflicting lock (nlm4_holder).
type Holder struct {
	Exclusive      bool
	Svid           int32
	Owner          []byte
	Offset, Length uint64
}

// EncodeXDR appends the holder.
func (h *Holder) EncodeXDR(e *xdr.Encoder) {
	e.Bool(h.Exclusive)
	e.Int32(h.Svid)
	e.Opaque(h.Owner)
	e.Uint64(h.Offset)
	e.Uint64(h.Length)
}

// DecodeXDR reads a holder.
func (h *Holder) DecodeXDR(d *xdr.Decoder) {
	h.Exclusive = d.Bool()
	h.Svid = d.Int32()
	h.Owner = d.Opaque(MaxObject)
	h.Offset = d.Uint64()
	h.Length = d.Uint64()
}

// A TestArgs has the arguments for TEST and GRANTED (nlm4_testargs).
type TestArgs struct {
	Cookie    []byte
	Exclusive bool
	Lock      Lock
}

// EncodeXDR appends the arguments.
func (a *TestArgs) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(a.Cookie)
	e.Bool(a.Exclusive)
	a.Lock.EncodeXDR(e)
}

// DecodeXDR reads the arguments.
func (a *TestArgs) DecodeXDR(d *xdr.Decoder) {
	a.Cookie = d.Opaque(MaxObject)
	a.Exclusive = d.Bool()
	a.Lock.DecodeXDR(d)
}

// A LockArgs has the arguments for LOCK and NM_LOCK (nlm4_lockargs).
type LockArgs struct {
	Cookie    []byte
	Block     bool // the caller waits for the lock, and requests GRANTED
	Exclusive bool
	Lock      Lock
	Reclaim   bool
	State     int32 // from the caller's status monitor
}

// EncodeXDR appends the arguments.
func (a *LockArgs) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(a.Cookie)
	e.Bool(a.Block)
	e.Bool(a.Exclusive)
	a.Lock.EncodeXDR(e)
	e.Bool(a.Reclaim)
	e.Int32(a.State)
}

// DecodeXDR reads the arguments.
func (a *LockArgs) DecodeXDR(d *xdr.Decoder) {
	a.Cookie = d.Opaque(MaxObject)
	a.Block = d.Bool()
	a.Exclusive = d.Bool()
	a.Lock.DecodeXDR(d)
	a.Reclaim = d.Bool()
	a.State = d.Int32()
}

// A CancelArgs has CANCEL's arguments (nlm4_cancargs): the arguments of the waiting LOCK.
type CancelArgs struct {
	Cookie           []byte
	Block, Exclusive bool
	Lock             Lock
}

// EncodeXDR appends the arguments.
func (a *CancelArgs) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(a.Cookie)
	e.Bool(a.Block)
	e.Bool(a.Exclusive)
	a.Lock.EncodeXDR(e)
}

// DecodeXDR reads the arguments.
func (a *CancelArgs) DecodeXDR(d *xdr.Decoder) {
	a.Cookie = d.Opaque(MaxObject)
	a.Block = d.Bool()
	a.Exclusive = d.Bool()
	a.Lock.DecodeXDR(d)
}

// An UnlockArgs has UNLOCK's arguments (nlm4_unlockargs).
type UnlockArgs struct {
	Cookie []byte
	Lock   Lock
}

// EncodeXDR appends the arguments.
func (a *UnlockArgs) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(a.Cookie)
	a.Lock.EncodeXDR(e)
}

// DecodeXDR reads the arguments.
func (a *UnlockArgs) DecodeXDR(d *xdr.Decoder) {
	a.Cookie = d.Opaque(MaxObject)
	a.Lock.DecodeXDR(d)
}

// A Res is most procedures' result (nlm4_res).
type Res struct {
	Cookie []byte // from the arguments
	Status Status
}

// EncodeXDR appends the result.
func (r *Res) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(r.Cookie)
	e.Uint32(uint32(r.Status))
}

// DecodeXDR reads a result.
func (r *Res) DecodeXDR(d *xdr.Decoder) {
	r.Cookie = d.Opaque(MaxObject)
	r.Status = Status(d.Uint32())
}

// A TestRes is TEST's result (nlm4_testres). The message includes Holder if Status is Denied.
type TestRes struct {
	Cookie []byte
	Status Status
	Holder Holder
}

// EncodeXDR appends the result.
func (r *TestRes) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(r.Cookie)
	e.Uint32(uint32(r.Status))
	if r.Status == Denied {
		r.Holder.EncodeXDR(e)
	}
}

// DecodeXDR reads a result.
func (r *TestRes) DecodeXDR(d *xdr.Decoder) {
	*r = TestRes{Cookie: d.Opaque(MaxObject), Status: Status(d.Uint32())}
	if r.Status == Denied {
		r.Holder.DecodeXDR(d)
	}
}
