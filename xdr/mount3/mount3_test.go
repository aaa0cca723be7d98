// Golden bytes and round trips of the MOUNT types.

package mount3

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// golden: each message with its bytes, written by hand from RFC 1813 §5.2.
var golden = []struct {
	name string
	msg  message
	hex  string
}{
	{"MNT args", &PathArgs{"/a/bc"}, "00000005" + "2f612f62" + "63000000"},
	{"MNT OK", &MntRes{OK, []byte{1, 2, 3, 4, 5}, []uint32{1, 0}},
		"00000000" + "00000005" + "0102030405000000" + "00000002" + "00000001" + "00000000"},
	{"MNT error", &MntRes{Status: ErrAcces}, "0000000d"},
	{"DUMP", &DumpRes{[]Mount{{"h", "/x"}}}, "00000001" + "0000000168000000" + "000000022f780000" + "00000000"},
	{"DUMP empty", &DumpRes{}, "00000000"},
	{"EXPORT", &ExportRes{[]Export{{"/x", []string{"*"}}, {"/y", nil}}},
		"00000001" + "000000022f780000" + "00000001" + "000000012a000000" + "00000000" +
			"00000001" + "000000022f790000" + "00000000" + "00000000"},
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

// TestLimits: lengths over the protocol's limits are refused, however many bytes there are.
func TestLimits(t *testing.T) {
	long := make([]byte, 2000)
	for _, c := range []struct {
		name string
		msg  message
		back message
	}{
		{"path", &PathArgs{string(long[:MaxPath+1])}, &PathArgs{}},
		{"handle", &MntRes{Handle: long[:MaxHandle+1]}, &MntRes{}},
		{"flavors", &MntRes{Handle: long[:4], Flavors: make([]uint32, MaxFlavor+1)}, &MntRes{}},
		{"host", &DumpRes{[]Mount{{string(long[:maxName+1]), "/"}}}, &DumpRes{}},
		{"group", &ExportRes{[]Export{{"/", []string{string(long[:maxName+1])}}}}, &ExportRes{}},
	} {
		d := xdr.NewDecoder(encode(c.msg))
		if c.back.DecodeXDR(d); d.Err() == nil {
			t.Errorf("%s: too long, and taken", c.name)
		}
	}
	for _, m := range []message{&PathArgs{string(long[:MaxPath])}, &MntRes{Handle: long[:MaxHandle], Flavors: make([]uint32, MaxFlavor)}} {
		d := xdr.NewDecoder(encode(m))
		if m.DecodeXDR(d); d.Err() != nil {
			t.Errorf("at the limit: %v", d.Err())
		}
	}
}
