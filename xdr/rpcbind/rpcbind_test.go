// Golden bytes, round trips and bad input of the port mapper's types.

package rpcbind

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"reflect"
	"strings"
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
	{"rpcb", &Binding{100003, 3, NetTCP, "192.0.2.1.8.1", "0"},
		"000186a3" + "00000003" + "00000003" + "74637000" + "0000000d" + "3139322e302e322e312e382e31" + "000000" + "00000001" + "30000000"},
	{"address", &AddrRes{"::1.8.11"}, "00000008" + "3a3a312e382e3131"},
	{"no address", &AddrRes{}, "00000000"},
	{"rpcblist", &ListRes{[]Binding{{1, 2, "", "", ""}}}, "00000001" + "0000000100000002" + "000000000000000000000000" + "00000000"},
	{"done", &BoolRes{true}, "00000001"},
	{"time", &TimeRes{0x01020304}, "01020304"},
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
	for _, list := range []struct {
		one, back message
		count     func(message) int
	}{
		{&DumpRes{[]Mapping{{1, 2, TCP, 4}}}, new(DumpRes), func(m message) int { return len(m.(*DumpRes).Mappings) }},
		{&ListRes{[]Binding{{1, 2, NetTCP, "::.0.4", ""}}}, new(ListRes), func(m message) int { return len(m.(*ListRes).Bindings) }},
	} {
		element := encode(list.one)
		element = element[:len(element)-4] // without the end of the list
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
	for _, m := range []message{&Binding{Owner: strings.Repeat("x", maxString+1)}, &AddrRes{strings.Repeat("x", maxString+1)}} {
		d := xdr.NewDecoder(encode(m))
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

// FuzzMessages reads any bytes as each message: what was read is written again as it was read.
func FuzzMessages(f *testing.F) {
	for _, g := range golden {
		b, _ := hex.DecodeString(g.hex)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, g := range golden {
			m := reflect.New(reflect.TypeOf(g.msg).Elem()).Interface().(message)
			d := xdr.NewDecoder(b)
			if m.DecodeXDR(d); d.Err() != nil {
				continue
			}
			again := reflect.New(reflect.TypeOf(g.msg).Elem()).Interface().(message)
			e := xdr.NewDecoder(encode(m))
			if again.DecodeXDR(e); e.Err() != nil || e.Remaining() != 0 || !reflect.DeepEqual(m, again) {
				t.Fatalf("%s: %+v, then %+v, %v", g.name, m, again, e.Err())
			}
		}
		if a, err := ParseUniversalAddr(string(b)); err == nil && a.Addr().Zone() == "" && !a.Addr().Is4In6() {
			if back, err := ParseUniversalAddr(UniversalAddr(a)); err != nil || back != a {
				t.Fatalf("%q: %v, %v, %v", b, a, back, err)
			}
		}
	})
}
