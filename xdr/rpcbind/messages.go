// Arguments and results for the port mapper (RFC 1833 §3.1).

package rpcbind

import "github.com/nfsrdma/nfsrdma/xdr"

// A Mapping is a program on a port (mapping); GETPORT ignores Port in its arguments.
type Mapping struct{ Prog, Vers, Prot, Port uint32 }

// mappingSize is a Mapping's size in bytes.
const mappingSize = 16

// EncodeXDR appends the mapping.
func (m *Mapping) EncodeXDR(e *xdr.Encoder) { xdr.MustMarshal(e, m) }

// DecodeXDR reads a mapping. The error stays in the Decoder.
func (m *Mapping) DecodeXDR(d *xdr.Decoder) {
	*m = Mapping{}
	_ = xdr.Unmarshal(d, m, mappingSize)
}

// A PortRes is GETPORT's result; 0 means that the program is not registered.
type PortRes struct{ Port uint32 }

// EncodeXDR appends the result.
func (r *PortRes) EncodeXDR(e *xdr.Encoder) { e.Uint32(r.Port) }

// DecodeXDR reads a result.
func (r *PortRes) DecodeXDR(d *xdr.Decoder) { r.Port = d.Uint32() }

// A DumpRes is DUMP's result (pmaplist): a linked list, with a word 1 before each mapping and 0
// at the end.
type DumpRes struct{ Mappings []Mapping }

// EncodeXDR appends the list.
func (r *DumpRes) EncodeXDR(e *xdr.Encoder) {
	for i := range r.Mappings {
		e.Bool(true)
		r.Mappings[i].EncodeXDR(e)
	}
	e.Bool(false)
}

// DecodeXDR reads a list of at most MaxList bytes; a longer one fails with xdr.ErrLimit.
func (r *DumpRes) DecodeXDR(d *xdr.Decoder) {
	r.Mappings = nil
	for start := d.Offset(); d.Bool(); {
		var m Mapping
		m.DecodeXDR(d)
		if d.CheckLimit(d.Offset()-start, MaxList); d.Err() != nil {
			r.Mappings = nil
			return
		}
		r.Mappings = append(r.Mappings, m)
	}
}
