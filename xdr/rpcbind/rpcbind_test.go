// Golden octets, round trips and bad input of the port mapper's types.

package rpcbind

import (
	"encoding/hex"
	"net/netip"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// golden: each message with its octets, written by hand from RFC 1833.
var golden = []struct {
	name string
	msg  message
	hex  string
}{
	{"mapping", &Mapping{100003, 3, TCP, 2049}, "000186a3" + "00000003" + "00000006" + "00000801"},
	{"rpcb", &Binding{100003, 3, "tcp", "::.8.1", "0"},
		"000186a3" + "00000003" + "0000000374637000" + "000000063a3a2e382e310000" + "0000000130000000"},
	{"bool", &BoolRes{true}, "00000001"},
	{"port", &PortRes{2049}, "00000801"},
	{"addr", &AddrRes{"::.8.1"}, "000000063a3a2e382e310000"},
	{"pmaplist", &PmapDumpRes{[]Mapping{{1, 2, 3, 4}, {5, 6, 7, 8}}},
		"00000001" + "00000001000000020000000300000004" + "00000001" + "00000005000000060000000700000008" + "00000000"},
	{"rpcblist", &DumpRes{[]Binding{{1, 2, "a", "", ""}}},
		"00000001" + "0000000100000002" + "0000000161000000" + "00000000" + "00000000" + "00000000"},
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
			t.Errorf("%s: decoded %+v, %d octets left, %v", g.name, back, d.Remaining(), d.Err())
		}
		for n := range b {
			d := xdr.NewDecoder(b[:n:n])
			if back.DecodeXDR(d); d.Err() == nil {
				t.Errorf("%s: cut to %d octets: no error", g.name, n)
			}
		}
	}
}

func TestAddr(t *testing.T) {
	for _, c := range []struct{ addr, want string }{
		{"127.0.0.1:2049", "127.0.0.1.8.1"}, {"[::1]:20049", "::1.78.81"}, {"0.0.0.0:0", "0.0.0.0.0.0"}, {"[::ffff:10.0.0.1]:111", "10.0.0.1.0.111"},
	} {
		a := netip.MustParseAddrPort(c.addr)
		if got := FormatAddr(a); got != c.want {
			t.Errorf("%v: %s, want %s", a, got, c.want)
		}
		if back, err := ParseAddr(c.want); err != nil || back.Port() != a.Port() || back.Addr() != a.Addr().Unmap() {
			t.Errorf("%s: %v, %v", c.want, back, err)
		}
	}
	for _, s := range []string{"", "1", "1.2", "127.0.0.1", "127.0.0.1.256.1", "127.0.0.1.1.", "x.1.2", "127.0.0.1.-1.2"} {
		if a, err := ParseAddr(s); err == nil {
			t.Errorf("%q: parsed as %v", s, a)
		}
	}
}
