// Checks of messages against hand-written bytes: encoding, decoding, truncation at each byte, and
// arbitrary bytes.

// Package xdrtest has the checks shared by all protocols' message tests.
package xdrtest

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Message encodes and decodes itself. A Message is a pointer.
type Message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// Golden is a message with its bytes in hexadecimal. Golden is an alias for an unnamed type, so
// that vet permits lists without field names.
type Golden = struct {
	Name string
	Msg  Message
	Hex  string
}

// Encode returns a message's bytes.
func Encode(m xdr.Marshaler) []byte {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	return e.Bytes()
}

// Fresh returns an empty message with the same type.
func Fresh(m Message) Message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message) }

// Check requires that each message encodes to its bytes, and decodes from them completely. Each
// truncation must be an error.
func Check(t *testing.T, list []Golden) {
	t.Helper()
	for _, g := range list {
		if got := hex.EncodeToString(Encode(g.Msg)); got != g.Hex {
			t.Errorf("%s: encoded %s, want %s", g.Name, got, g.Hex)
		}
		b, err := hex.DecodeString(g.Hex)
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		back := Fresh(g.Msg)
		d := xdr.NewDecoder(b)
		back.DecodeXDR(d)
		if d.Err() != nil || d.Remaining() != 0 || !reflect.DeepEqual(back, g.Msg) {
			t.Errorf("%s: decoded %+v, %d bytes left, %v", g.Name, back, d.Remaining(), d.Err())
		}
		for n := range b {
			d := xdr.NewDecoder(b[:n:n])
			if back.DecodeXDR(d); d.Err() == nil {
				t.Errorf("%s: cut to %d bytes: no error", g.Name, n)
			}
		}
	}
}

// Fuzz decodes arbitrary bytes as the message selected by the first byte. A decoded message must
// encode to bytes that decode to the same message.
func Fuzz(f *testing.F, list []Golden) {
	for i, g := range list {
		f.Add(append([]byte{byte(i)}, Encode(g.Msg)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		like := list[int(b[0])%len(list)].Msg
		m, back := Fresh(like), Fresh(like)
		d := xdr.NewDecoder(b[1:])
		if m.DecodeXDR(d); d.Err() != nil {
			return
		}
		again := Encode(m)
		d = xdr.NewDecoder(again)
		if back.DecodeXDR(d); d.Err() != nil || d.Remaining() != 0 || !bytes.Equal(Encode(back), again) {
			t.Errorf("%+v, again %+v, %v", m, back, d.Err())
		}
	})
}
