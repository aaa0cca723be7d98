// Golden bytes and round trips of the MOUNT types.

package mount3

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/internal/xdrtest"
)

// golden has each message with its bytes, hand-written from RFC 1813 §5.2.
var golden = []xdrtest.Golden{
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

func TestGolden(t *testing.T) { xdrtest.Check(t, golden) }

// TestLimits: lengths over the protocol's limits are refused, even if the message has all the
// bytes.
func TestLimits(t *testing.T) {
	long := make([]byte, 2000)
	for _, c := range []struct {
		name string
		msg  xdrtest.Message
		back xdrtest.Message
	}{
		{"path", &PathArgs{string(long[:MaxPath+1])}, &PathArgs{}},
		{"handle", &MntRes{Handle: long[:MaxHandle+1]}, &MntRes{}},
		{"flavors", &MntRes{Handle: long[:4], Flavors: make([]uint32, MaxFlavor+1)}, &MntRes{}},
		{"host", &DumpRes{[]Mount{{string(long[:maxName+1]), "/"}}}, &DumpRes{}},
		{"group", &ExportRes{[]Export{{"/", []string{string(long[:maxName+1])}}}}, &ExportRes{}},
	} {
		d := xdr.NewDecoder(xdrtest.Encode(c.msg))
		if c.back.DecodeXDR(d); d.Err() == nil {
			t.Errorf("%s: too long, and taken", c.name)
		}
	}
	for _, m := range []xdrtest.Message{&PathArgs{string(long[:MaxPath])}, &MntRes{Handle: long[:MaxHandle], Flavors: make([]uint32, MaxFlavor)}} {
		d := xdr.NewDecoder(xdrtest.Encode(m))
		if m.DecodeXDR(d); d.Err() != nil {
			t.Errorf("at the limit: %v", d.Err())
		}
	}
}
