// The Encoder: appends XDR to a byte slice, and keeps large opaque items outside it.

package xdr

import (
	"encoding/binary"
	"slices"
)

// An Item is the content of one variable-length opaque outside its stream, so that it can travel
// separately (in an RDMA chunk or a gather list) without a copy.
//
// Off is the stream offset of the content and its XDR pad, just after the item's length word.
// AnyOffset means the next item in the stream: the wire does not carry the offset for results
// (RFC 8166 §3.4.6).
type Item struct {
	Off  int
	Data []byte
}

// AnyOffset is the Off of an item matched only by order.
const AnyOffset = -1

// A Marshaler appends its XDR form to an Encoder.
type Marshaler interface{ EncodeXDR(e *Encoder) }

// An Encoder appends XDR (RFC 4506) to a byte slice. Encoding cannot fail. The zero value is ready
// for use; Reset makes an Encoder and its buffer reusable.
type Encoder struct {
	buf   []byte
	items []Item
}

// NewEncoder returns an Encoder that appends to buf[:0].
func NewEncoder(buf []byte) *Encoder { return &Encoder{buf: buf[:0]} }

// Reset makes the Encoder append to buf[:0] and forgets all items.
func (e *Encoder) Reset(buf []byte) {
	e.buf = buf[:0]
	clear(e.items)
	e.items = e.items[:0]
}

// Move copies the stream into buf, if it fits, and continues there. Items stay.
func (e *Encoder) Move(buf []byte) { e.buf = append(buf[:0], e.buf...) }

// Bytes returns the stream without the detached items. The result is valid until the next append.
func (e *Encoder) Bytes() []byte { return e.buf }

// Items returns the detached items in stream order.
func (e *Encoder) Items() []Item { return e.items }

// Len returns the stream's length in bytes, without the detached items.
func (e *Encoder) Len() int { return len(e.buf) }

// Truncate cuts the stream to n bytes and drops the items after it.
func (e *Encoder) Truncate(n int) {
	e.buf = e.buf[:n]
	for len(e.items) > 0 && e.items[len(e.items)-1].Off > n {
		e.items = e.items[:len(e.items)-1]
	}
}

// SetUint32 overwrites the word at stream offset off.
func (e *Encoder) SetUint32(off int, v uint32) { binary.BigEndian.PutUint32(e.buf[off:], v) }

// Uint32 appends an unsigned integer (RFC 4506 §4.2).
func (e *Encoder) Uint32(v uint32) { e.buf = binary.BigEndian.AppendUint32(e.buf, v) }

// Int32 appends an integer (RFC 4506 §4.1).
func (e *Encoder) Int32(v int32) { e.Uint32(uint32(v)) }

// Uint64 appends an unsigned hyper integer (RFC 4506 §4.5).
func (e *Encoder) Uint64(v uint64) { e.buf = binary.BigEndian.AppendUint64(e.buf, v) }

// Int64 appends a hyper integer (RFC 4506 §4.5).
func (e *Encoder) Int64(v int64) { e.Uint64(uint64(v)) }

// Bool appends a boolean (RFC 4506 §4.4).
func (e *Encoder) Bool(v bool) {
	if v {
		e.Uint32(1)
	} else {
		e.Uint32(0)
	}
}

// Fixed appends a fixed-length opaque and its pad (RFC 4506 §4.9).
func (e *Encoder) Fixed(b []byte) {
	e.buf = append(e.buf, b...)
	e.buf = append(e.buf, zeros[:Pad(len(b))]...)
}

// Opaque appends a variable-length opaque (RFC 4506 §4.10).
func (e *Encoder) Opaque(b []byte) {
	e.Uint32(uint32(len(b)))
	e.Fixed(b)
}

// String appends a string (RFC 4506 §4.11).
func (e *Encoder) String(s string) {
	e.Uint32(uint32(len(s)))
	e.buf = append(e.buf, s...)
	e.buf = append(e.buf, zeros[:Pad(len(s))]...)
}

// Space appends n bytes, a multiple of four, for the caller to overwrite: the content is arbitrary.
// The bytes are valid until the next append.
func (e *Encoder) Space(n int) []byte {
	old := len(e.buf)
	e.buf = slices.Grow(e.buf, n)[:old+n]
	return e.buf[old:]
}

// Raw appends bytes already in XDR form.
func (e *Encoder) Raw(b []byte) { e.buf = append(e.buf, b...) }

// Item appends a variable-length opaque's length word and keeps its content outside the stream.
// The Encoder references data: do not change it until the message has been sent.
func (e *Encoder) Item(data []byte) {
	e.Uint32(uint32(len(data)))
	if len(data) > 0 {
		e.items = append(e.items, Item{Off: len(e.buf), Data: data})
	}
}

var zeros [3]byte

// Pad returns the number of zero bytes after n bytes, up to a multiple of four (RFC 4506 §3).
func Pad(n int) int { return -n & 3 }

// RoundUp returns n rounded up to a multiple of four.
func RoundUp(n int) int { return (n + 3) &^ 3 }
