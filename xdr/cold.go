// Marshal and Unmarshal: XDR by reflection, for rarely used types.

package xdr

import (
	"bytes"

	goxdr "github.com/rasky/go-xdr/xdr2"
)

// maxCold is the most bytes that Unmarshal reads.
const maxCold = 1 << 20

// Marshal appends v's XDR form by reflection: exported fields in order, with the tags of
// github.com/rasky/go-xdr (`xdr:"optional"` for a pointer that may be nil, `xdr:"union"` and
// `xdr:"unioncase=N"`). Marshal is slow and allocates: do not use it on the data path. After an
// error nothing is appended.
func Marshal(e *Encoder, v any) error {
	start := e.Len()
	if _, err := goxdr.Marshal((*appender)(e), v); err != nil {
		e.Truncate(start)
		return err
	}
	return nil
}

// MustMarshal calls Marshal for a type that cannot fail to marshal. A failure is a bug, and panics.
func MustMarshal(e *Encoder, v any) {
	if err := Marshal(e, v); err != nil {
		panic(err)
	}
}

// appender lets go-xdr write to an Encoder.
type appender Encoder

func (a *appender) Write(b []byte) (int, error) {
	(*Encoder)(a).Raw(b)
	return len(b), nil
}

// Unmarshal reads v, a pointer, by reflection from at most the next limit bytes (and no more than
// maxCold). Lengths in v cannot exceed the available bytes. Unmarshal stores copies in v. Errors
// also stay in the Decoder.
func Unmarshal(d *Decoder, v any, limit int) error {
	if d.err != nil {
		return d.err
	}
	in := d.b[d.off:]
	in = in[:min(len(in), limit, maxCold)]
	if len(in) == 0 {
		d.err = ErrShort
		return d.err
	}
	n, err := goxdr.UnmarshalLimited(bytes.NewReader(in), v, uint(len(in)))
	d.off += min(n, len(in))
	if err != nil {
		d.err = err
	}
	return err
}
