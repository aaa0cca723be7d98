// The Decoder: XDR from a byte slice, with a sticky first error.

package xdr

import (
	"encoding/binary"
	"errors"
)

// Errors of a Decoder. Each means that the message is malformed.
var (
	ErrShort = errors.New("xdr: message ends early")
	ErrLimit = errors.New("xdr: length over its limit")
	ErrValue = errors.New("xdr: value not allowed")
	ErrItem  = errors.New("xdr: detached item has another length than its length word")
	ErrSink  = errors.New("xdr: item is longer than the sink that is meant for it")
)

// An Unmarshaler decodes itself from a Decoder; errors stay in the Decoder.
type Unmarshaler interface{ DecodeXDR(d *Decoder) }

// A Decoder reads XDR (RFC 4506) from a slice. It keeps the first error, and after an error every
// read returns zero, so check Err once at the end. Opaques alias the slice.
type Decoder struct {
	b          []byte
	off        int
	items      []Item
	sink       []byte
	sinkUsed   bool
	itemInline bool
	err        error
}

// NewDecoder returns a Decoder for b.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Reset makes the Decoder read b, with detached items in stream order.
func (d *Decoder) Reset(b []byte, items []Item) { *d = Decoder{b: b, items: items} }

// SetSink sets the destination for the next item: a non-detached Item is copied there, and fails
// with ErrSink if the item does not fit. An empty sink is no destination.
func (d *Decoder) SetSink(sink []byte) { d.sink = sink }

// SinkUsed reports whether an item has been copied to the sink.
func (d *Decoder) SinkUsed() bool { return d.sinkUsed }

// ItemKept reports whether an item was left in the message: the item was not detached, and there
// was no sink.
func (d *Decoder) ItemKept() bool { return d.itemInline }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Fail records err unless there is an earlier error.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// CheckLimit records ErrLimit if n exceeds limit. Use it for lengths known only after reading.
func (d *Decoder) CheckLimit(n, limit int) {
	if n > limit {
		d.Fail(ErrLimit)
	}
}

// Offset returns the number of bytes read so far.
func (d *Decoder) Offset() int { return d.off }

// Before returns the bytes of the stream before the position. It aliases the stream.
func (d *Decoder) Before() []byte { return d.b[:d.off:d.off] }

// Remaining returns the number of unread bytes.
func (d *Decoder) Remaining() int { return len(d.b) - d.off }

// ItemsLeft returns the number of detached items not yet taken by Item.
func (d *Decoder) ItemsLeft() int { return len(d.items) }

// ItemBytes returns the size of the detached items not yet taken by Item.
func (d *Decoder) ItemBytes() (n int) {
	for i := range d.items {
		n += len(d.items[i].Data)
	}
	return n
}

// Unreduced returns the length and the first bytes, at most limit, of the unread part as it was
// before its items were detached: with the items and their pads. Both results are the same for any
// choice of chunks. lead aliases the message or space, whose capacity must be at least limit.
func (d *Decoder) Unreduced(limit int, space []byte) (length int, lead []byte) {
	rest := d.b[d.off:]
	length = len(rest)
	if len(d.items) == 0 {
		return length, rest[:min(limit, length)]
	}
	lead = space[:0]
	add := func(b []byte) { lead = append(lead, b[:min(limit-len(lead), len(b))]...) }
	at := 0
	for i := range d.items {
		it := &d.items[i]
		next := min(max(it.Off-d.off, at), len(rest))
		add(rest[at:next])
		add(it.Data)
		add(zeros[:Pad(len(it.Data))])
		length += RoundUp(len(it.Data))
		at = next
	}
	add(rest[at:])
	return length, lead
}

// take returns the next n bytes, or nil with an error.
func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.b)-d.off {
		d.err = ErrShort
		return nil
	}
	b := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// Uint32 reads an unsigned integer (RFC 4506 §4.2).
func (d *Decoder) Uint32() uint32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Int32 reads an integer (RFC 4506 §4.1).
func (d *Decoder) Int32() int32 { return int32(d.Uint32()) }

// Uint64 reads an unsigned hyper integer (RFC 4506 §4.5).
func (d *Decoder) Uint64() uint64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Int64 reads a hyper integer (RFC 4506 §4.5).
func (d *Decoder) Int64() int64 { return int64(d.Uint64()) }

// Bool reads a boolean; any value but 0 and 1 is an error (RFC 4506 §4.4).
func (d *Decoder) Bool() bool {
	v := d.Uint32()
	if v > 1 {
		d.Fail(ErrValue)
	}
	return v == 1
}

// Fixed reads a fixed-length opaque of n bytes and its pad (RFC 4506 §4.9). A message's last pad
// may be missing: a peer that reduces a message can omit it (RFC 8166 §3.4.5).
func (d *Decoder) Fixed(n int) []byte {
	b := d.take(n)
	if b == nil {
		return nil
	}
	if p := Pad(n); p > 0 {
		d.off += min(p, d.Remaining())
	}
	return b
}

// Opaque reads a variable-length opaque of at most limit bytes (RFC 4506 §4.10).
func (d *Decoder) Opaque(limit int) []byte {
	n := d.Uint32()
	if d.err == nil && uint64(n) > uint64(limit) {
		d.err = ErrLimit
	}
	if d.err != nil {
		return nil
	}
	return d.Fixed(int(n))
}

// String reads a string of at most limit bytes (RFC 4506 §4.11). The result is a copy.
func (d *Decoder) String(limit int) string { return string(d.Opaque(limit)) }

// Item reads a variable-length opaque that may have been detached from the stream: Item returns the
// next detached item's content if that item belongs at this offset, else the next bytes. A detached
// argument may include its pad (RFC 8166 §3.4.5.2 [R8166-071]), which Item cuts off. A result's
// item has no offset, and never a pad (RFC 8166 §3.4.6.2 [R8166-082]). Any other length fails with
// ErrItem.
func (d *Decoder) Item(limit int) []byte {
	n := d.Uint32()
	if d.err == nil && uint64(n) > uint64(limit) {
		d.err = ErrLimit
	}
	if d.err != nil || n == 0 {
		return nil
	}
	if len(d.items) == 0 || (d.items[0].Off != AnyOffset && d.items[0].Off != d.off) {
		return d.toSink(d.Fixed(int(n)))
	}
	it := d.items[0]
	padded := it.Off != AnyOffset && len(it.Data) == RoundUp(int(n))
	if len(it.Data) != int(n) && !padded {
		d.err = ErrItem
		return nil
	}
	d.items = d.items[1:]
	return it.Data[:n:n]
}

// toSink copies an item's content to the sink.
func (d *Decoder) toSink(b []byte) []byte {
	if len(d.sink) == 0 || d.err != nil {
		d.itemInline = d.err == nil
		return b
	}
	if len(b) > len(d.sink) {
		d.err = ErrSink
		return nil
	}
	b = d.sink[:copy(d.sink, b)]
	d.sink, d.sinkUsed = nil, true
	return b
}

// Rest returns all unread bytes.
func (d *Decoder) Rest() []byte { return d.take(d.Remaining()) }
