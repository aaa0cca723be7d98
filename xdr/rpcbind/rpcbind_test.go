// Golden bytes, round trips and bad input for the port mapper's types.

package rpcbind

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/internal/xdrtest"
)

// golden has each message with its bytes, hand-written from RFC 1833.
var golden = []xdrtest.Golden{
	{"mapping", &Mapping{100003, 3, TCP, 2049}, "000186a3" + "00000003" + "00000006" + "00000801"},
	{"port", &PortRes{2049}, "00000801"},
	{"pmaplist", &DumpRes{[]Mapping{{1, 2, 3, 4}, {5, 6, 7, 8}}},
		"00000001" + "00000001000000020000000300000004" + "00000001" + "00000005000000060000000700000008" + "00000000"},
	{"rpcb", &Binding{100003, 3, NetTCP, "192.0.2.1.8.1", "0"},
		"000186a3" + "00000003" + "00000003" + "74637000" + "0000000d" + "3139322e302e322e312e382e31" + "000000" + "00000001" + "30000000"},
	{"address", &AddrRes{"::1.8.11"}, "00000008" + "3a3a312e382e3131"},
	{"no address", &AddrRes{}, "00000000"},
	{"rpcblist", &ListRes{[]Binding{{1, 2, "", "", ""}}}, "00000001" + "0000000100000002" + "000000000000000000000000" + "00000000"},
	{"done", &BoolRes{true}, "00000001"},
	{"time", &TimeRes{0x01020304}, "01020304"},
	{"call_args", &CallArgs{395183, 1, 10, []byte{1, 2, 3, 4}},
		"000607af" + "00000001" + "0000000a" + "00000004" + "01020304"},
	{"call_result", &CallRes{1021, []byte{9, 8, 7, 6}}, "000003fd" + "00000004" + "09080706"},
	{"rpcb_rmtcallres", &RemoteRes{"::1.8.11", []byte{0, 0, 0, 7}}, "00000008" + "3a3a312e382e3131" + "00000004" + "00000007"},
}

func TestGolden(t *testing.T) { xdrtest.Check(t, golden) }

// TestDumpIsBounded: decoding a list stops with an error after MaxList bytes, and returns no
// elements.
func TestDumpIsBounded(t *testing.T) {
	for _, list := range []struct {
		one, back xdrtest.Message
		count     func(xdrtest.Message) int
	}{
		{&DumpRes{[]Mapping{{1, 2, TCP, 4}}}, new(DumpRes), func(m xdrtest.Message) int { return len(m.(*DumpRes).Mappings) }},
		{&ListRes{[]Binding{{1, 2, NetTCP, "::.0.4", ""}}}, new(ListRes), func(m xdrtest.Message) int { return len(m.(*ListRes).Bindings) }},
	} {
		element := xdrtest.Encode(list.one)
		element = element[:len(element)-4] // without the list's end
		long := bytes.Repeat(element, MaxList/len(element)+1)
		d := xdr.NewDecoder(append(long, 0, 0, 0, 0))
		if list.back.DecodeXDR(d); !errors.Is(d.Err(), xdr.ErrLimit) || list.count(list.back) != 0 {
			t.Errorf("%T: %d elements, %v", list.back, list.count(list.back), d.Err())
		}
		d = xdr.NewDecoder(append(long[:len(long)-2*len(element)], 0, 0, 0, 0))
		if list.back.DecodeXDR(d); d.Err() != nil || list.count(list.back) != MaxList/len(element)-1 {
			t.Errorf("%T: %d elements, %v", list.back, list.count(list.back), d.Err())
		}
	}
}

func TestStringsAreBounded(t *testing.T) {
	for _, m := range []xdrtest.Message{&Binding{Owner: strings.Repeat("x", maxString+1)}, &AddrRes{strings.Repeat("x", maxString+1)}} {
		d := xdr.NewDecoder(xdrtest.Encode(m))
		if m.DecodeXDR(d); !errors.Is(d.Err(), xdr.ErrLimit) {
			t.Errorf("%T: %v", m, d.Err())
		}
	}
}

func TestUniversalAddr(t *testing.T) {
	for _, c := range []struct{ addr, want string }{
		{"192.0.2.1:2049", "192.0.2.1.8.1"},
		{"0.0.0.0:0", "0.0.0.0.0.0"},
		{"[2001:db8::1]:20049", "2001:db8::1.78.81"},
		{"[::]:65535", "::.255.255"},
	} {
		a := netip.MustParseAddrPort(c.addr)
		if got := UniversalAddr(a); got != c.want {
			t.Errorf("%s: %s, want %s", c.addr, got, c.want)
		}
		if back, err := ParseUniversalAddr(c.want); err != nil || back != a {
			t.Errorf("%s: %v, %v", c.want, back, err)
		}
	}
	for _, s := range []string{"", ".", "1.2", "1.2.3.4", "1.2.3.4.5", "1.2.3.4.256.1", "1.2.3.4.-1.1", "1.2.3.4.1.", "::1", "host.8.1"} {
		if a, err := ParseUniversalAddr(s); err == nil {
			t.Errorf("%q is %v", s, a)
		}
	}
}

func FuzzMessages(f *testing.F) { xdrtest.Fuzz(f, golden) }

// FuzzUniversalAddr: each text is refused, or parses to an address whose formatted form parses to
// the same address.
func FuzzUniversalAddr(f *testing.F) {
	for _, s := range []string{"192.0.2.1.8.1", "::1.8.11", "1.2.3.4.256.1", ".."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseUniversalAddr(s)
		if err != nil || a.Addr().Zone() != "" || a.Addr().Is4In6() {
			return
		}
		if back, err := ParseUniversalAddr(UniversalAddr(a)); err != nil || back != a {
			t.Errorf("%q: %v, %v, %v", s, a, back, err)
		}
	})
}
