// Golden bytes, round trips and bad input of the port mapper's types.

package rpcbind

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

// golden: each message with its bytes, written by hand from RFC 1833.
var golden = []struct {
	name string
	msg  message
	hex  string
}{
	{"mapping", &Mapping{100003, 3, TCP, 2049}, "000186a3" + "00000003" + "00000006" + "00000801"},
	{"port", &PortRes{2049}, "00000801"},
	{"pmaplist", &DumpRes{[]Mapping{{1, 2, 3, 4}, {5, 6, 7, 8}}},
		"00000001" + "00000001000000020000000300000004" + "00000001" + "00000005000000060000000700000008" + "00000000"},
}

func encode(m xdr.Marshaler) []byte {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	return e.Bytes()
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		if got := hex.EncodeToString(encode(g.msg)); got != g.hex {
			t.Errorf("%s: encoded %s, want %s", g.name, got, g.hex)
		}
		b, _ := hex.DecodeString(g.hex)
		back := reflect.New(reflect.TypeOf(g.msg).Elem()).Interface().(message)
		d := xdr.NewDecoder(b)
		back.DecodeXDR(d)
		if d.Err() != nil || d.Remaining() != 0 || !reflect.DeepEqual(back, g.msg) {
			t.Errorf("%s: decoded %+v, %d bytes left, %v", g.name, back, d.Remaining(), d.Err())
		}
		for n := range b {
			d := xdr.NewDecoder(b[:n:n])
			if back.DecodeXDR(d); d.Err() == nil {
				t.Errorf("%s: cut to %d bytes: no error", g.name, n)
			}
		}
	}
}

// A list that would never end is not read to its end.
func TestDumpIsBounded(t *testing.T) {
	element := encode(&DumpRes{[]Mapping{{1, 2, TCP, 4}}})[:4+mappingSize]
	long := bytes.Repeat(element, MaxList/len(element)+1)
	var r DumpRes
	d := xdr.NewDecoder(append(long, 0, 0, 0, 0))
	if r.DecodeXDR(d); !errors.Is(d.Err(), xdr.ErrLimit) || r.Mappings != nil {
		t.Errorf("%d mappings, %v", len(r.Mappings), d.Err())
	}
	d = xdr.NewDecoder(append(long[:len(long)-2*len(element)], 0, 0, 0, 0))
	if r.DecodeXDR(d); d.Err() != nil || len(r.Mappings) != MaxList/len(element)-1 {
		t.Errorf("%d mappings, %v", len(r.Mappings), d.Err())
	}
}
