// Arguments and results of the port mapper (RFC 1833 §2.1, §3.1).

package rpcbind

import "github.com/nfsrdma/nfsrdma/xdr"

// A Mapping is a program on a port: arguments of SET, UNSET and GETPORT in
// version 2 (mapping). UNSET ignores Prot and Port, GETPORT ignores Port.
type Mapping struct{ Prog, Vers, Prot, Port uint32 }

// EncodeXDR appends the mapping.
func (m *Mapping) EncodeXDR(e *xdr.Encoder) { xdr.MustMarshal(e, m) }

// DecodeXDR reads a mapping.
func (m *Mapping) DecodeXDR(d *xdr.Decoder) {
	*m = Mapping{}
	unmarshal(d, m, 16)
}

// A Binding is a program at an address: arguments of SET, UNSET and GETADDR
// from version 3 on (rpcb).
type Binding struct {
	Prog, Vers uint32
	Netid      string // NetTCP, ...
	Addr       string // universal address; see FormatAddr
	Owner      string // who may UNSET it
}

// EncodeXDR appends the binding.
func (b *Binding) EncodeXDR(e *xdr.Encoder) { xdr.MustMarshal(e, b) }

// DecodeXDR reads a binding; a string over MaxString fails with xdr.ErrLimit.
func (b *Binding) DecodeXDR(d *xdr.Decoder) {
	*b = Binding{}
	unmarshal(d, b, 8+3*(4+xdr.RoundUp(MaxString)))
	d.Hold(max(len(b.Netid), len(b.Addr), len(b.Owner)), MaxString)
}

// A BoolRes is the result of SET and UNSET: whether it was done.
type BoolRes struct{ OK bool }

// EncodeXDR appends the result.
func (r *BoolRes) EncodeXDR(e *xdr.Encoder) { e.Bool(r.OK) }

// DecodeXDR reads a result.
func (r *BoolRes) DecodeXDR(d *xdr.Decoder) { r.OK = d.Bool() }

// A PortRes is the result of GETPORT; 0 means that the program is not there.
type PortRes struct{ Port uint32 }

// EncodeXDR appends the result.
func (r *PortRes) EncodeXDR(e *xdr.Encoder) { e.Uint32(r.Port) }

// DecodeXDR reads a result.
func (r *PortRes) DecodeXDR(d *xdr.Decoder) { r.Port = d.Uint32() }

// An AddrRes is the result of GETADDR: a universal address, empty when the program is not there.
type AddrRes struct{ Addr string }

// EncodeXDR appends the result.
func (r *AddrRes) EncodeXDR(e *xdr.Encoder) { xdr.MustMarshal(e, r) }

// DecodeXDR reads a result; an address over MaxString fails with xdr.ErrLimit.
func (r *AddrRes) DecodeXDR(d *xdr.Decoder) {
	*r = AddrRes{}
	unmarshal(d, r, 4+xdr.RoundUp(MaxString))
	d.Hold(len(r.Addr), MaxString)
}

// A PmapDumpRes is the result of DUMP in version 2.
type PmapDumpRes struct{ Mappings []Mapping }

// EncodeXDR appends the list.
func (r *PmapDumpRes) EncodeXDR(e *xdr.Encoder) { encodeList(e, r.Mappings) }

// DecodeXDR reads a list.
func (r *PmapDumpRes) DecodeXDR(d *xdr.Decoder) {
	r.Mappings = decodeList(d, (*Mapping).DecodeXDR)
}

// A DumpRes is the result of DUMP from version 3 on.
type DumpRes struct{ Bindings []Binding }

// EncodeXDR appends the list.
func (r *DumpRes) EncodeXDR(e *xdr.Encoder) { encodeList(e, r.Bindings) }

// DecodeXDR reads a list.
func (r *DumpRes) DecodeXDR(d *xdr.Decoder) {
	r.Bindings = decodeList(d, (*Binding).DecodeXDR)
}

// encodeList appends list as a linked list: a word 1 before each element, 0 at the end.
func encodeList[T any](e *xdr.Encoder, list []T) {
	for i := range list {
		e.Bool(true)
		xdr.MustMarshal(e, &list[i])
	}
	e.Bool(false)
}

// decodeList reads a linked list of at most MaxList octets.
func decodeList[T any](d *xdr.Decoder, decode func(*T, *xdr.Decoder)) []T {
	var list []T
	for start := d.Offset(); d.Bool(); {
		var v T
		decode(&v, d)
		if d.Hold(d.Offset()-start, MaxList); d.Err() != nil {
			return nil
		}
		list = append(list, v)
	}
	return list
}

// unmarshal reads v from at most limit octets. The error stays in the Decoder.
func unmarshal(d *xdr.Decoder, v any, limit int) { _ = xdr.Unmarshal(d, v, limit) }
