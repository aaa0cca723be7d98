// Messages beside bytes that were written by hand: encoded, decoded, cut short at each byte, and
// arbitrary ones.

// Package xdrtest is what the tests of each protocol's messages have in common.
package xdrtest

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Message encodes and decodes itself. It is a pointer to its type.
type Message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// Golden is a message, and its bytes as hexadecimal digits. It is no type of its own, so that lists
// of them need no names of fields.
type Golden = struct {
	Name string
	Msg  Message
	Hex  string
}

// Encode is the bytes of a message.
func Encode(m xdr.Marshaler) []byte {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	return e.Bytes()
}

// Fresh is a message of the same type without content.
func Fresh(m Message) Message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message) }

// Check has each message encode to its bytes, these decode to it, to the last byte, and each
// truncation of them be an error.
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

// Fuzz decodes any bytes as the message that the first one picks. What decodes encodes to bytes
// that decode to the same.
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
