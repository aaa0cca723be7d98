// The Encoder and Decoder: golden bytes, go-xdr as oracle, limits, items, bad input.

package xdr

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"
	"testing/quick"

	goxdr "github.com/rasky/go-xdr/xdr2"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestGolden: each kind of value encodes to its bytes, as in RFC 4506 §4.
func TestGolden(t *testing.T) {
	conformance.Proves(t, "R8166-005")
	for _, g := range []struct {
		name string
		f    func(e *Encoder)
		hex  string
	}{
		{"uint32", func(e *Encoder) { e.Uint32(0xdeadbeef) }, "deadbeef"},
		{"int32", func(e *Encoder) { e.Int32(-2) }, "fffffffe"},
		{"uint64", func(e *Encoder) { e.Uint64(0x0102030405060708) }, "0102030405060708"},
		{"int64", func(e *Encoder) { e.Int64(math.MinInt64) }, "8000000000000000"},
		{"bool", func(e *Encoder) { e.Bool(true); e.Bool(false) }, "0000000100000000"},
		{"fixed", func(e *Encoder) { e.Fixed([]byte{1, 2, 3, 4, 5}) }, "0102030405000000"},
		{"opaque", func(e *Encoder) { e.Opaque([]byte{1, 2}) }, "0000000201020000"},
		{"opaque of none", func(e *Encoder) { e.Opaque(nil) }, "00000000"},
		{"string", func(e *Encoder) { e.String("sillyprog") }, "0000000973696c6c7970726f67000000"},
		{"raw", func(e *Encoder) { e.Raw([]byte{1}) }, "01"},
		{"item", func(e *Encoder) { e.Item([]byte{1, 2, 3}) }, "00000003"},
		{"set", func(e *Encoder) { e.Uint64(0); e.SetUint32(4, 7) }, "0000000000000007"},
	} {
		e := NewEncoder(nil)
		g.f(e)
		if got := hex.EncodeToString(e.Bytes()); got != g.hex || e.Len() != len(g.hex)/2 {
			t.Errorf("%s: %s, want %s", g.name, got, g.hex)
		}
	}
}

// all has one field of each kind, for go-xdr.
type all struct {
	A uint32
	B int32
	C uint64
	D int64
	E bool
	F [5]byte
	G []byte
	H string
}

func (a *all) EncodeXDR(e *Encoder) {
	e.Uint32(a.A)
	e.Int32(a.B)
	e.Uint64(a.C)
	e.Int64(a.D)
	e.Bool(a.E)
	e.Fixed(a.F[:])
	e.Opaque(a.G)
	e.String(a.H)
}

func (a *all) DecodeXDR(d *Decoder) {
	*a = all{A: d.Uint32(), B: d.Int32(), C: d.Uint64(), D: d.Int64(), E: d.Bool(), F: [5]byte(append(d.Fixed(5), 0, 0, 0, 0, 0)),
		G: d.Opaque(1 << 16), H: d.String(1 << 16)}
}

// TestOracle: our bytes equal go-xdr's, and each reads the other's.
func TestOracle(t *testing.T) {
	if err := quick.Check(func(a all) bool {
		var w bytes.Buffer
		if _, err := goxdr.Marshal(&w, &a); err != nil {
			t.Fatalf("Marshal: %v", err)
		}
		e := NewEncoder(nil)
		a.EncodeXDR(e)
		cold := NewEncoder(nil)
		MustMarshal(cold, &a)
		var back, coldBack all
		d := NewDecoder(w.Bytes())
		back.DecodeXDR(d)
		dc := NewDecoder(e.Bytes())
		err := Unmarshal(dc, &coldBack, 1<<17)
		same := func(x *all) bool {
			return bytes.Equal(x.G, a.G) && x.H == a.H && x.F == a.F && x.D == a.D && x.A == a.A
		}
		return bytes.Equal(e.Bytes(), w.Bytes()) && bytes.Equal(cold.Bytes(), w.Bytes()) && d.Err() == nil && d.Remaining() == 0 &&
			err == nil && dc.Remaining() == 0 && same(&back) && same(&coldBack)
	}, nil); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// TestTruncated: both decoders report each truncation; the very last pad may be missing.
func TestTruncated(t *testing.T) {
	a := all{G: []byte{1, 2, 3}, H: "abcde"}
	e := NewEncoder(nil)
	a.EncodeXDR(e)
	for n := range e.Len() {
		b := e.Bytes()[:n:n]
		d := NewDecoder(b)
		if (&all{}).DecodeXDR(d); errors.Is(d.Err(), ErrShort) != (n < e.Len()-3) {
			t.Errorf("%d of %d bytes: %v", n, e.Len(), d.Err())
		}
		d = NewDecoder(b)
		if err := Unmarshal(d, &all{}, 1<<17); err == nil || d.Err() == nil {
			t.Errorf("by reflection: %d of %d bytes are taken", n, e.Len())
		}
	}
}

// TestSticky: after an error all reads are zero, and the first error stays.
func TestSticky(t *testing.T) {
	d := NewDecoder([]byte{0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1})
	if d.Bool() || !errors.Is(d.Err(), ErrValue) {
		t.Fatalf("boolean 2: %v", d.Err())
	}
	d.Fail(ErrLimit)
	if d.Uint32() != 0 || d.Uint64() != 0 || d.Opaque(9) != nil || d.Item(9) != nil || d.Fixed(1) != nil || d.Rest() != nil || d.String(9) != "" || d.Bool() {
		t.Error("something was read after an error")
	}
	if d.Offset() != 4 || d.Remaining() != 8 || !errors.Is(d.Err(), ErrValue) {
		t.Errorf("at %d, %d left, %v", d.Offset(), d.Remaining(), d.Err())
	}
	if err := Unmarshal(d, new(uint32), 4); !errors.Is(err, ErrValue) {
		t.Errorf("Unmarshal after an error: %v", err)
	}
}

// TestLimits: a length is checked against its limit and the available bytes before its use.
func TestLimits(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}
	for _, limit := range []int{0, 4, math.MaxInt32} {
		d := NewDecoder(huge)
		if b := d.Opaque(limit); b != nil || !errors.Is(d.Err(), ErrLimit) {
			t.Errorf("limit %d: %x, %v", limit, b, d.Err())
		}
	}
	d := NewDecoder(huge)
	if b := d.Opaque(math.MaxInt); b != nil || !errors.Is(d.Err(), ErrShort) {
		t.Errorf("no limit: %x, %v", b, d.Err())
	}
	for _, v := range []any{new(string), new([]byte), new([]uint64), new([][]uint64)} {
		d := NewDecoder(huge)
		if err := Unmarshal(d, v, 1<<20); err == nil {
			t.Errorf("%T of 4294967295 elements: taken", v)
		}
	}
	d = NewDecoder([]byte{0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8})
	if err := Unmarshal(d, new([]byte), 8); err == nil {
		t.Error("12 bytes within a limit of 8")
	}
}

// TestItem: an argument is found by its offset, with or without its pad; a result by its order,
// without a pad (RFC 8166 §3.4.4.4 [R8166-057], RFC 8166 §3.4.5.2 [R8166-071], RFC 8166 §3.4.6.2
// [R8166-082]).
func TestItem(t *testing.T) {
	conformance.Proves(t, "R8166-057", "R8166-071", "R8166-082", "R8166-083")
	stream := []byte{0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 7}
	for _, c := range []struct {
		name string
		item Item
		want string
		err  error
	}{
		{"argument", Item{8, []byte("abcde")}, "abcde", nil},
		{"argument and pad", Item{8, []byte("abcde\x00\x00\x00")}, "abcde", nil},
		{"argument, too long", Item{8, []byte("abcdef")}, "", ErrItem},
		{"argument, too short", Item{8, []byte("abcd")}, "", ErrItem},
		{"result", Item{AnyOffset, []byte("abcde")}, "abcde", nil},
		{"result and pad", Item{AnyOffset, []byte("abcde\x00\x00\x00")}, "", ErrItem},
		{"elsewhere", Item{4, []byte("abcde")}, "", ErrShort},
	} {
		var d Decoder
		d.Reset(stream, []Item{c.item})
		d.Uint32()
		got := d.Item(100)
		if string(got) != c.want || !errors.Is(d.Err(), c.err) {
			t.Errorf("%s: %q, %v", c.name, got, d.Err())
		}
		if c.err == nil && (d.Uint32() != 7 || d.ItemsLeft() != 0) {
			t.Errorf("%s: the stream does not go on after it", c.name)
		}
	}
	var d Decoder
	d.Reset(stream, []Item{{AnyOffset, []byte("abcde")}})
	d.Uint32()
	if d.Item(4); !errors.Is(d.Err(), ErrLimit) {
		t.Errorf("over the limit: %v", d.Err())
	}
}

// TestUnreduced: the unread part is returned as it was before its items were detached.
func TestUnreduced(t *testing.T) {
	whole := []byte("hddr0000....item1...mid.item22..tail")
	for _, limit := range []int{0, 3, 8, 12, 17, 19, 22, 31, 36, 100} {
		for name, d := range map[string]*Decoder{
			"nothing detached": NewDecoder(whole),
			"two items":        {b: []byte("hddr0000mid.tail"), items: []Item{{8, []byte("....item1...")}, {12, []byte("item22..")}}},
			"without pads":     {b: []byte("hddr0000mid.tail"), items: []Item{{8, []byte("....item1...")}, {12, []byte("item22")}}},
			"taken already":    {b: []byte("hddr0000mid.tail"), items: []Item{{4, []byte("0000....")}}},
		} {
			want, most := whole, len(whole)
			switch name {
			case "without pads":
				want = []byte("hddr0000....item1...mid.item22\x00\x00tail")
			case "taken already":
				want = []byte("hddr0000....0000mid.tail")
				most = len(want)
			}
			d.Uint32()
			n, lead := d.Unreduced(limit, make([]byte, 0, 100))
			if n != most-4 || string(lead) != string(want[4:][:min(limit, most-4)]) {
				t.Errorf("%s, at most %d: %d, %q", name, limit, n, lead)
			}
		}
	}
}

// TestSink: inline content is placed in the sink, once, and is refused if it does not fit.
func TestSink(t *testing.T) {
	b := []byte{0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 1, 'd', 0, 0, 0}
	for _, size := range []int{3, 8} {
		d := NewDecoder(b)
		sink := make([]byte, size)
		d.SetSink(sink)
		got := d.Item(9)
		if string(got) != "abc" || &got[0] != &sink[0] || d.ItemKept() || !d.SinkUsed() {
			t.Errorf("sink of %d: %q, sink has %q", size, got, sink)
		}
		if got := d.Item(9); string(got) != "d" || &got[0] == &sink[0] || !d.ItemKept() {
			t.Errorf("second item %q in the sink of the first", got)
		}
	}
	d := NewDecoder(b)
	sink := make([]byte, 2)
	d.SetSink(sink)
	if got := d.Item(9); got != nil || d.Err() != ErrSink || d.SinkUsed() || sink[0] != 0 {
		t.Errorf("item of 3 for a sink of 2: %q, %v", got, d.Err())
	}
	for _, sink := range [][]byte{nil, {}} {
		d := NewDecoder(b)
		d.SetSink(sink)
		if got := d.Item(9); string(got) != "abc" || d.SinkUsed() || !d.ItemKept() {
			t.Errorf("no sink: %q", got)
		}
	}
}

// TestMove: the stream continues in another buffer, with its items.
func TestMove(t *testing.T) {
	e := NewEncoder(nil)
	e.Uint32(1)
	e.Item([]byte{9})
	buf := make([]byte, 16)
	e.Move(buf)
	e.Uint32(2)
	if got, want := buf[:12], []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2}; !bytes.Equal(got, want) || len(e.Items()) != 1 || e.Items()[0].Off != 8 {
		t.Errorf("got %x with %d items, want %x with one at 8", got, len(e.Items()), want)
	}
}

func TestTruncate(t *testing.T) {
	e := NewEncoder(nil)
	e.Uint32(1)
	e.Item([]byte("a"))
	at := e.Len()
	e.Uint32(2)
	e.Item([]byte("b"))
	e.Item(nil)
	if len(e.Items()) != 2 {
		t.Errorf("%d items; one of no bytes is none", len(e.Items()))
	}
	if e.Truncate(at); e.Len() != at || len(e.Items()) != 1 || e.Items()[0].Off != at {
		t.Errorf("cut at %d: %d bytes, %+v", at, e.Len(), e.Items())
	}
	if err := Marshal(e, make(chan int)); err == nil || e.Len() != at {
		t.Errorf("a failed Marshal left %d bytes: %v", e.Len()-at, err)
	}
	if e.Reset(nil); e.Len() != 0 || len(e.Items()) != 0 {
		t.Error("Reset left something")
	}
}

func TestPad(t *testing.T) {
	for n, pad := range []int{0, 3, 2, 1, 0, 3} {
		if Pad(n) != pad || RoundUp(n) != n+pad {
			t.Errorf("%d: pad %d, rounded up %d", n, Pad(n), RoundUp(n))
		}
	}
}

// FuzzDecoder: the script selects the reads; none may panic or return bytes from elsewhere.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8}, []byte("\x00\x00\x00\x01\x00\x00\x00\x02ab\x00\x00"), []byte("xy"), 8)
	f.Fuzz(func(t *testing.T, script, b, item []byte, off int) {
		var d Decoder
		d.Reset(b, []Item{{off, item}})
		for _, op := range script {
			var got []byte
			switch op % 10 {
			case 0:
				d.Uint32()
			case 1:
				d.Uint64()
			case 2:
				d.Bool()
			case 3:
				got = d.Fixed(int(op))
			case 4:
				got = d.Opaque(int(op))
			case 5:
				got = []byte(d.String(int(op)))
			case 6:
				got = d.Item(int(op))
			case 7:
				d.Int32()
			case 8:
				_ = Unmarshal(&d, new(all), int(op))
			case 9:
				d.SetSink(make([]byte, op))
			}
			if len(got) > len(b)+len(item) || d.Remaining() < 0 || d.Offset() > len(b) {
				t.Fatalf("%d bytes read, at %d of %d", len(got), d.Offset(), len(b))
			}
		}
	})
}
