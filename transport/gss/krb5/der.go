// DER with the constructed, explicitly tagged fields of Kerberos (RFC 4120 §5.1).

package krb5

import (
	"errors"
	"time"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

var errDER = errors.New("krb5: a malformed ASN.1 message")

const generalString = asn1.GeneralString

// application returns the tag of a message.
func application(n byte) asn1.Tag { return asn1.Tag(0x60 | n) }

// contextTag returns the tag of field n in a sequence.
func contextTag(n byte) asn1.Tag { return asn1.Tag(n).Constructed().ContextSpecific() }

// A reader decodes the fields of one sequence. The first fault is kept in bad, which all readers of
// a message share; later reads return zeros. The bytes are the caller's, and results alias them.
type reader struct {
	s   cryptobyte.String
	bad *bool
}

// openMessage returns the sequence in an application tag. Bytes after the message are ignored,
// because a ciphertext may be padded.
func openMessage(b []byte, n byte) reader {
	r := reader{cryptobyte.String(b), new(bool)}
	return r.innerOf(application(n)).innerOf(asn1.SEQUENCE)
}

// err returns the fault of the whole message.
func (r reader) err() error {
	if *r.bad {
		return errDER
	}
	return nil
}

func (r *reader) check(ok bool) {
	if !ok {
		*r.bad = true
	}
}

// inner reads an element and returns a reader of its contents.
func (r *reader) inner(tag asn1.Tag) reader {
	in := reader{bad: r.bad}
	r.check(r.s.ReadASN1(&in.s, tag))
	return in
}

// innerOf is inner for a reader that a function has returned.
func (r reader) innerOf(tag asn1.Tag) reader { return r.inner(tag) }

// has reports whether field n is next.
func (r *reader) has(n byte) bool { return r.s.PeekASN1Tag(contextTag(n)) }

// field reads field n, which must be next.
func (r *reader) field(n byte) reader { return r.inner(contextTag(n)) }

// sequence reads field n with a sequence.
func (r *reader) sequence(n byte) reader { return r.field(n).innerOf(asn1.SEQUENCE) }

func (r *reader) int32(n byte) int32 {
	v := r.integer(n)
	r.check(int64(int32(v)) == v)
	return int32(v)
}

// uint32 also accepts negative numbers: some peers encode numbers from 1<<31 on as such.
func (r *reader) uint32(n byte) uint32 {
	v := r.integer(n)
	r.check(v >= -1<<31 && v < 1<<32)
	return uint32(v)
}

func (r *reader) integer(n byte) (v int64) {
	f := r.field(n)
	r.check(f.s.ReadASN1Integer(&v))
	return v
}

func (r *reader) bytes(n byte) []byte {
	f := r.field(n)
	return f.inner(asn1.OCTET_STRING).s
}

func (r *reader) text(n byte) string {
	f := r.field(n)
	return string(f.inner(generalString).s)
}

// flags reads the first 32 bits of a bit string (RFC 4120 §5.2.8).
func (r *reader) flags(n byte) (bits uint32) {
	f := r.field(n)
	b := []byte(f.inner(asn1.BIT_STRING).s)
	if len(b) == 0 {
		r.check(false)
		return 0
	}
	for i := range 4 {
		bits <<= 8
		if i+1 < len(b) {
			bits |= uint32(b[i+1])
		}
	}
	return bits
}

func (r *reader) time(n byte) (t time.Time) {
	f := r.field(n)
	r.check(f.s.ReadASN1GeneralizedTime(&t))
	return t
}

// A writer encodes a sequence.
type writer struct{ b *cryptobyte.Builder }

// message encodes a sequence in an application tag.
func message(n byte, f func(writer)) []byte {
	var b cryptobyte.Builder
	b.AddASN1(application(n), func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { f(writer{b}) })
	})
	return b.BytesOrPanic() // fails only for lengths above four bytes
}

func (w writer) field(n byte, f func(b *cryptobyte.Builder)) { w.b.AddASN1(contextTag(n), f) }

func (w writer) sequence(n byte, f func(writer)) {
	w.field(n, func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { f(writer{b}) })
	})
}

func (w writer) integer(n byte, v int64) {
	w.field(n, func(b *cryptobyte.Builder) { b.AddASN1Int64(v) })
}

func (w writer) bytes(n byte, v []byte) {
	w.field(n, func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.OCTET_STRING, func(b *cryptobyte.Builder) { b.AddBytes(v) })
	})
}

func (w writer) text(n byte, v string) {
	w.field(n, func(b *cryptobyte.Builder) { addText(b, v) })
}

func addText(b *cryptobyte.Builder, v string) {
	b.AddASN1(generalString, func(b *cryptobyte.Builder) { b.AddBytes([]byte(v)) })
}

func (w writer) flags(n byte, bits uint32) {
	w.field(n, func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.BIT_STRING, func(b *cryptobyte.Builder) {
			b.AddUint8(0) // unused bits
			b.AddUint32(bits)
		})
	})
}

func (w writer) time(n byte, t time.Time) {
	w.field(n, func(b *cryptobyte.Builder) { b.AddASN1GeneralizedTime(t.UTC()) })
}
