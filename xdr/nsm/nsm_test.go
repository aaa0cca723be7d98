// Golden bytes, truncations, limits and arbitrary bytes of the NSM types.

package nsm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// golden: each message with its bytes, written by hand.
var golden = []struct {
	msg message
	hex string
}{
	{&StatChange{[]byte("host"), -3}, "00000004" + "686f7374" + "fffffffd"},
	{&StatRes{Fail, 7}, "00000001" + "00000007"},
}

func encode(m xdr.Marshaler) []byte {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	return e.Bytes()
}

func fresh(m message) message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message) }

func TestGolden(t *testing.T) {
	for _, g := range golden {
		if got := hex.EncodeToString(encode(g.msg)); got != g.hex {
			t.Errorf("%T: encoded %s, want %s", g.msg, got, g.hex)
		}
		b, _ := hex.DecodeString(g.hex)
		back := fresh(g.msg)
		d := xdr.NewDecoder(b)
		back.DecodeXDR(d)
		if d.Err() != nil || d.Remaining() != 0 || !reflect.DeepEqual(back, g.msg) {
			t.Errorf("%T: decoded %+v, %d bytes left, %v", g.msg, back, d.Remaining(), d.Err())
		}
		for n := range b {
			d := xdr.NewDecoder(b[:n:n])
			if back.DecodeXDR(d); d.Err() == nil {
				t.Errorf("%T: cut to %d bytes: no error", g.msg, n)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	for n, want := range map[int]error{maxName: nil, maxName + 1: xdr.ErrLimit} {
		var c StatChange
		d := xdr.NewDecoder(encode(&StatChange{Name: make([]byte, n)}))
		if c.DecodeXDR(d); !errors.Is(d.Err(), want) {
			t.Errorf("a name of %d bytes: %v, want %v", n, d.Err(), want)
		}
	}
}

// FuzzMessages: the first byte picks the message; what decodes must encode to bytes that decode to the same.
func FuzzMessages(f *testing.F) {
	for i, g := range golden {
		f.Add(append([]byte{byte(i)}, encode(g.msg)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		like := golden[int(b[0])%len(golden)].msg
		m, back := fresh(like), fresh(like)
		d := xdr.NewDecoder(b[1:])
		if m.DecodeXDR(d); d.Err() != nil {
			return
		}
		again := encode(m)
		d = xdr.NewDecoder(again)
		if back.DecodeXDR(d); d.Err() != nil || !bytes.Equal(encode(back), again) {
			t.Errorf("%+v, again %+v, %v", m, back, d.Err())
		}
	})
}
