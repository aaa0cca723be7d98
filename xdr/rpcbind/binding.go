// Arguments and results for rpcbind, versions 3 and 4 (RFC 1833 §2.1).

package rpcbind

import "github.com/nfsrdma/nfsrdma/xdr"

// A Binding is a program at an address (rpcb). In GETADDR's arguments, Addr is the address at
// which the caller reached rpcbind, or empty. In UNSET's, Addr and Owner are ignored.
type Binding struct {
	Prog, Vers         uint32
	Netid, Addr, Owner string
}

// bindingSize is the largest Binding, in bytes.
const bindingSize = 8 + 3*(4+maxString)

// EncodeXDR appends the binding.
func (b *Binding) EncodeXDR(e *xdr.Encoder) { xdr.MustMarshal(e, b) }

// DecodeXDR reads a binding; a string over maxString fails with xdr.ErrLimit.
func (b *Binding) DecodeXDR(d *xdr.Decoder) {
	*b = Binding{}
	_ = xdr.Unmarshal(d, b, bindingSize)
	for _, s := range []string{b.Netid, b.Addr, b.Owner} {
		d.CheckLimit(len(s), maxString)
	}
}

// An AddrRes is the result for GETADDR and GETVERSADDR, a universal address (UniversalAddr); ""
// means that the program is not registered.
type AddrRes struct{ Addr string }

// EncodeXDR appends the result.
func (r *AddrRes) EncodeXDR(e *xdr.Encoder) { e.String(r.Addr) }

// DecodeXDR reads a result; an address longer than maxString fails with xdr.ErrLimit.
func (r *AddrRes) DecodeXDR(d *xdr.Decoder) { r.Addr = d.String(maxString) }

// A ListRes is DUMP's result (rpcblist): a linked list, with a word 1 before each binding and 0
// at the end.
type ListRes struct{ Bindings []Binding }

// EncodeXDR appends the list.
func (r *ListRes) EncodeXDR(e *xdr.Encoder) {
	for i := range r.Bindings {
		e.Bool(true)
		r.Bindings[i].EncodeXDR(e)
	}
	e.Bool(false)
}

// DecodeXDR reads a list of at most MaxList bytes; a longer one fails with xdr.ErrLimit.
func (r *ListRes) DecodeXDR(d *xdr.Decoder) {
	r.Bindings = nil
	for start := d.Offset(); d.Bool(); {
		var b Binding
		b.DecodeXDR(d)
		if d.CheckLimit(d.Offset()-start, MaxList); d.Err() != nil {
			r.Bindings = nil
			return
		}
		r.Bindings = append(r.Bindings, b)
	}
}

// A BoolRes is the result for SET and UNSET: whether the procedure succeeded.
type BoolRes struct{ OK bool }

// EncodeXDR appends the result.
func (r *BoolRes) EncodeXDR(e *xdr.Encoder) { e.Bool(r.OK) }

// DecodeXDR reads a result.
func (r *BoolRes) DecodeXDR(d *xdr.Decoder) { r.OK = d.Bool() }

// A TimeRes is GETTIME's result: seconds since 1970.
type TimeRes struct{ Seconds uint32 }

// EncodeXDR appends the result.
func (r *TimeRes) EncodeXDR(e *xdr.Encoder) { e.Uint32(r.Seconds) }

// DecodeXDR reads a result.
func (r *TimeRes) DecodeXDR(d *xdr.Decoder) { r.Seconds = d.Uint32() }
