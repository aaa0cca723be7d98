// Positions, the choice of forms, and the layout, each compared with its table.

package chunks

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// TestPosition: Position counts the complete call (RFC 8166 §3.4.5 [R8166-059 R8166-060], RFC 8166
// §4.3.1.1 [R8166-120]), and Place finds the offset again, with and without padding in the chunks
// (RFC 8166 §3.4.5.2 [R8166-071]).
func TestPosition(t *testing.T) {
	conformance.Proves(t, "R8166-059", "R8166-060", "R8166-071", "R8166-120")
	m := Message{Stream: make([]byte, 120), Items: []xdr.Item{
		{Off: 80, Data: make([]byte, 4097)}, {Off: 84, Data: make([]byte, 3)}, {Off: 120, Data: make([]byte, 8)},
	}}
	want := []uint32{80, 84 + 4100, 120 + 4100 + 4}
	for _, padded := range []bool{false, true} {
		var l Lists
		for i := len(m.Items) - 1; i >= 0; i-- { // the list may have any order
			if got := m.Position(i); got != want[i] {
				t.Fatalf("item %d: Position %d, want %d", i, got, want[i])
			}
			n := len(m.Items[i].Data)
			if padded {
				n = xdr.RoundUp(n)
			}
			l.Read = append(l.Read, read(want[i], 1, uint32(n-1), 0), read(want[i], 1, 1, 0))
		}
		l.Read = append(l.Read, read(0, 1, 120, 0), read(600, 1, 0, 0))
		items, err := Place(nil, l.ReadChunks(), len(m.Stream))
		if want := []xdr.Item{{Off: 80}, {Off: 84}, {Off: 120}}; err != nil || !reflect.DeepEqual(items, want) {
			t.Errorf("padded %v: %+v, %v, want %+v", padded, items, err, want)
		}
	}
}

// TestBadPosition: Positions outside the stream, overlapping or not aligned are refused (RFC 8166
// §3.4.5 [R8166-061 R8166-064]).
func TestBadPosition(t *testing.T) {
	conformance.Proves(t, "R8166-061", "R8166-064")
	for _, c := range []struct {
		name   string
		segs   []ReadSegment
		stream int
	}{
		{"behind the stream", []ReadSegment{read(104, 1, 4, 0)}, 100},
		{"far behind", []ReadSegment{read(0x7ffffffc, 1, 4, 0)}, 100},
		{"second behind", []ReadSegment{read(80, 1, 100, 0), read(204, 1, 4, 0)}, 100},
		{"inside the one before", []ReadSegment{read(80, 1, 100, 0), read(120, 1, 4, 0)}, 200},
		{"no room for its length word", []ReadSegment{read(80, 1, 100, 0), read(180, 1, 4, 0)}, 200},
		{"not aligned", []ReadSegment{read(81, 1, 4, 0)}, 100},
		{"behind four thousand million bytes", []ReadSegment{read(80, 1, 1<<32-1, 0), read(80, 1, 1<<32-1, 0), read(88, 1, 4, 0)}, 100},
	} {
		l := Lists{Read: c.segs}
		if items, err := Place(nil, l.ReadChunks(), c.stream); !errors.Is(err, ErrPosition) {
			t.Errorf("%s: %+v, %v", c.name, items, err)
		}
	}
}

// TestGather: the gathered message is complete again, with padding, but without the items in the
// set.
func TestGather(t *testing.T) {
	e := xdr.NewEncoder(nil)
	e.Uint32(1)
	e.Item([]byte("abcde"))
	e.Item([]byte("fghi"))
	e.Uint32(2)
	m := Message{e.Bytes(), e.Items()}
	const (
		one, lenA, a = "\x00\x00\x00\x01", "\x00\x00\x00\x05", "abcde\x00\x00\x00"
		lenB, b, two = "\x00\x00\x00\x04", "fghi", "\x00\x00\x00\x02"
	)
	for reduced, want := range map[ItemSet]string{
		0: one + lenA + a + lenB + b + two,
		1: one + lenA + lenB + b + two,
		2: one + lenA + a + lenB + two,
		3: one + lenA + lenB + two,
	} {
		if got := string(bytes.Join(m.Gather(nil, reduced), nil)); got != want || m.lenWithout(reduced) != len(want) {
			t.Errorf("%b: %q of %d, want %q", reduced, got, m.lenWithout(reduced), want)
		}
	}
	if m.FullLen() != 28 {
		t.Errorf("full length %d", m.FullLen())
	}
}

// TestPlanCall: PlanCall follows the requester's tables, with each row at its limit (RFC 8166
// §3.3.2 [R8166-034], RFC 8166 §3.5.3 [R8166-087], RFC 8166 §4.3.3 [R8166-136 R8166-137]).
func TestPlanCall(t *testing.T) {
	conformance.Proves(t, "R8166-034", "R8166-087", "R8166-115", "R8166-136", "R8166-137", "R8267-001")
	base := CallSizes{Stream: 100, ItemSegments: 1, LongSegments: 1, MaxReply: 100, SinkSegments: 1, ReplySegments: 2,
		CallThreshold: 1024, ReplyThreshold: 1024}
	for _, c := range []struct {
		name   string
		change func(s *CallSizes)
		want   CallPlan
	}{
		{"small call and reply", func(s *CallSizes) {}, CallPlan{FormInline, OfferNothing, 28, 0}},
		{"reply just inline", func(s *CallSizes) { s.MaxReply = 996 }, CallPlan{FormInline, OfferNothing, 28, 0}},
		{"reply one byte more", func(s *CallSizes) { s.MaxReply = 997 }, CallPlan{FormInline, OfferReply, 64, 997}},
		{"READ that fits inline", func(s *CallSizes) { s.Sink = 895 }, CallPlan{FormInline, OfferNothing, 28, 0}},
		{"READ", func(s *CallSizes) { s.Sink = 897 }, CallPlan{FormInline, OfferWrite, 52, 897}},
		{"READ whose rest is too large", func(s *CallSizes) { s.Sink, s.MaxReply = 897, 973 }, CallPlan{FormInline, OfferReply, 64, 1873}},
		{"call just inline", func(s *CallSizes) { s.Items = 896 }, CallPlan{FormInline, OfferNothing, 28, 0}},
		{"WRITE", func(s *CallSizes) { s.Items = 900 }, CallPlan{FormReduced, OfferNothing, 52, 0}},
		{"reduced just inline", func(s *CallSizes) { s.Items, s.Stream = 900, 972 }, CallPlan{FormReduced, OfferNothing, 52, 0}},
		{"long with an item", func(s *CallSizes) { s.Items, s.Stream = 900, 976 }, CallPlan{FormLong, OfferNothing, 52, 0}},
		{"long", func(s *CallSizes) { s.Stream = 1000 }, CallPlan{FormLong, OfferNothing, 52, 0}},
		{"the offer makes it long", func(s *CallSizes) { s.Stream, s.MaxReply = 964, 2000 }, CallPlan{FormLong, OfferReply, 88, 2000}},
	} {
		s := base
		c.change(&s)
		if got, err := PlanCall(s); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	base.Stream, base.LongSegments = 5000, 50
	if p, err := PlanCall(base); !errors.Is(err, errHeader) {
		t.Errorf("50 segments: %+v, %v", p, err)
	}
}

// TestPlanReply: PlanReply follows the steps of a responder (RFC 8166 §3.5.3 [R8166-092 R8166-093],
// RFC 8166 §4.3.2 [R8166-123 R8166-124], RFC 8166 §4.3.2.1 [R8166-126 R8166-127], RFC 8166 §4.3.2.2
// [R8166-130], RFC 8166 §4.3.2.3 [R8166-133]).
func TestPlanReply(t *testing.T) {
	conformance.Proves(t, "R8166-092", "R8166-093", "R8166-115", "R8166-123", "R8166-124", "R8166-126", "R8166-127", "R8166-128",
		"R8166-130", "R8166-133", "R8166-164", "R8267-002")
	seg := func(n uint32) Segment { return Segment{Handle: 1, Length: n} }
	msg := func(stream int, items ...int) Message {
		m := Message{Stream: make([]byte, stream)}
		for _, n := range items {
			m.Items = append(m.Items, xdr.Item{Off: stream, Data: make([]byte, n)})
		}
		return m
	}
	for _, c := range []struct {
		name string
		m    Message
		make func(l *Lists)
		want ReplyPlan
	}{
		{"nothing offered", msg(100), func(l *Lists) {}, ReplyPlan{FormInline, 0, 28, 100}},
		{"item inline", msg(100, 5), func(l *Lists) {}, ReplyPlan{FormInline, 0, 28, 108}},
		{"just inline", msg(100, 896), func(l *Lists) {}, ReplyPlan{FormInline, 0, 28, 996}},
		{"fits nowhere", msg(100, 897), func(l *Lists) {}, ReplyPlan{FormNone, 0, 28, 1000}},
		{"one byte by Write chunk", msg(100, 1), func(l *Lists) { l.AddWrite(seg(9)) }, ReplyPlan{FormReduced, 1, 52, 100}},
		{"Write chunk just large enough", msg(100, 9), func(l *Lists) { l.AddWrite(seg(4), seg(5)) }, ReplyPlan{FormReduced, 1, 68, 100}},
		{"Write chunk too small", msg(100, 10), func(l *Lists) { l.AddWrite(seg(9)) }, ReplyPlan{Form: FormNone, header: 52}},
		{"error arm", msg(100), func(l *Lists) { l.AddWrite(seg(9)) }, ReplyPlan{FormInline, 0, 52, 100}},
		{"empty Write chunk", msg(100, 9), func(l *Lists) { l.AddWrite() }, ReplyPlan{FormInline, 0, 36, 112}},
		{"Write chunk of no bytes", msg(100, 9), func(l *Lists) { l.AddWrite(seg(0)) }, ReplyPlan{Form: FormNone, header: 52}},
		{"header over the threshold", msg(100), func(l *Lists) { l.SetReply(make([]Segment, 61)...); l.AddWrite(seg(9)); l.Reply[0].Length = 4000 },
			ReplyPlan{FormNone, 0, 28 + 4 + 61*16 + 24, 100}},
		{"two items, two chunks, one empty", msg(100, 9, 8), func(l *Lists) { l.AddWrite(); l.AddWrite(seg(8)) }, ReplyPlan{FormReduced, 2, 60, 112}},
		{"two items, one chunk", msg(100, 9, 8), func(l *Lists) { l.AddWrite(seg(9)) }, ReplyPlan{FormReduced, 1, 52, 108}},
		{"one item, two chunks", msg(100, 9), func(l *Lists) { l.AddWrite(seg(9)); l.AddWrite(seg(9)) }, ReplyPlan{FormReduced, 1, 76, 100}},
		{"Reply chunk not needed", msg(100), func(l *Lists) { l.SetReply(seg(4000)) }, ReplyPlan{FormInline, 0, 48, 100}},
		{"Reply chunk", msg(1000), func(l *Lists) { l.SetReply(seg(500), seg(500)) }, ReplyPlan{FormLong, 0, 64, 1000}},
		{"Reply chunk with item", msg(997, 5), func(l *Lists) { l.SetReply(seg(1005)) }, ReplyPlan{FormLong, 0, 48, 1005}},
		{"Reply chunk too small", msg(1000), func(l *Lists) { l.SetReply(seg(999)) }, ReplyPlan{FormNone, 0, 48, 1000}},
		{"Write chunk and Reply chunk", msg(1000, 500), func(l *Lists) { l.AddWrite(seg(500)); l.SetReply(seg(1000)) }, ReplyPlan{FormLong, 1, 72, 1000}},
		{"the Read list does not come back", msg(100), func(l *Lists) { l.Read = append(l.Read, read(80, 1, 1, 1)) }, ReplyPlan{FormInline, 0, 28, 100}},
	} {
		var l Lists
		c.make(&l)
		if got := PlanReply(c.m, &l, 1024); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestScatter: segments are filled in order, the rest is returned as zero, and no zero-length
// segment is written (RFC 8166 §3.4.6 [R8166-074 R8166-076], RFC 8166 §3.4.6.2 [R8166-081]).
func TestScatter(t *testing.T) {
	conformance.Proves(t, "R8166-074", "R8166-076", "R8166-081", "R8166-145")
	chunk := func(ns ...uint32) (c Chunk) {
		for i, n := range ns {
			c = append(c, Segment{Handle: uint32(i), Length: n, Offset: uint64(i) << 32})
		}
		return c
	}
	for _, c := range []struct {
		name  string
		chunk Chunk
		src   []string
		parts []string
		want  Chunk
		left  int
	}{
		{"one to one", chunk(5), []string{"abcde"}, []string{"abcde"}, chunk(5), 0},
		{"room left", chunk(8), []string{"abcde"}, []string{"abcde"}, chunk(5), 0},
		{"over three", chunk(2, 2, 9), []string{"abcde"}, []string{"ab", "cd", "e"}, chunk(2, 2, 1), 0},
		{"an unused one", chunk(5, 4), []string{"abcde"}, []string{"abcde"}, chunk(5, 0), 0},
		{"empty ones between", chunk(0, 2, 0, 3, 0), []string{"abcde"}, []string{"ab", "cde"}, chunk(0, 2, 0, 3, 0), 0},
		{"many slices", chunk(3, 3), []string{"a", "", "bcd", "e", ""}, []string{"abc", "de"}, chunk(3, 2), 0},
		{"nothing", chunk(3, 3), nil, nil, chunk(0, 0), 0},
		{"too much", chunk(1, 1), []string{"abc", "de"}, []string{"a", "b"}, chunk(1, 1), 3},
	} {
		var src [][]byte
		for _, s := range c.src {
			src = append(src, []byte(s))
		}
		var parts []string
		s := NewScatter(c.chunk, src)
		for s.Next() {
			if i := s.Segment.Handle; s.Segment.Offset != uint64(i)<<32 || s.Segment.Length == 0 {
				t.Errorf("%s: segment %+v", c.name, s.Segment)
			}
			parts = append(parts, string(bytes.Join(s.AppendTo(nil), nil)))
		}
		if !reflect.DeepEqual(parts, c.parts) || left(&s) != c.left {
			t.Errorf("%s: %q, %d left, want %q, %d", c.name, parts, left(&s), c.parts, c.left)
		}
		if !reflect.DeepEqual(c.chunk, c.want) {
			t.Errorf("%s: chunk %+v, want %+v", c.name, c.chunk, c.want)
		}
	}
}

// TestScatterRandom: for any cuts the bytes arrive in order, and a requester accepts the returned
// chunk (RFC 8166 §3.4.6.1 [R8166-079]).
func TestScatterRandom(t *testing.T) {
	conformance.Proves(t, "R8166-079")
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		data := make([]byte, r.IntN(50))
		for i := range data {
			data[i] = byte(r.UintN(256))
		}
		var src [][]byte
		for rest := data; len(rest) > 0; {
			n := r.IntN(len(rest) + 1)
			src, rest = append(src, rest[:n]), rest[n:]
		}
		var c Chunk
		for range 5 {
			c = append(c, Segment{Length: uint32(r.IntN(20))})
		}
		c = append(c, Segment{Length: 50})
		offered := append(Chunk(nil), c...)
		var got []byte
		s := NewScatter(c, src)
		for s.Next() {
			got = append(got, bytes.Join(s.AppendTo(nil), nil)...)
		}
		n, err := c.Returned(offered)
		if !bytes.Equal(got, data) || left(&s) != 0 {
			t.Fatalf("%x over %+v: %x, %d left", data, offered, got, left(&s))
		}
		if err != nil || n != uint64(len(data)) {
			t.Fatalf("%x over %+v: %d bytes returned, %v", data, offered, n, err)
		}
	}
}

// TestReturned: a requester refuses the chunks that a reply MUST NOT return (RFC 8166 §3.4.6
// [R8166-075], RFC 8166 §3.4.6.2 [R8166-083]).
func TestReturned(t *testing.T) {
	conformance.Proves(t, "R8166-075")
	offered := Chunk{{1, 10, 100}, {2, 10, 200}}
	for _, c := range []struct {
		name string
		got  Chunk
		n    uint64
		err  error
	}{
		{"all", Chunk{{1, 10, 100}, {2, 10, 200}}, 20, nil},
		{"part", Chunk{{1, 10, 100}, {2, 3, 200}}, 13, nil},
		{"unused", Chunk{{1, 0, 100}, {2, 0, 200}}, 0, nil},
		{"one segment less", Chunk{{1, 10, 100}}, 0, errEcho},
		{"handle", Chunk{{1, 10, 100}, {3, 3, 200}}, 0, errEcho},
		{"offset", Chunk{{1, 10, 100}, {2, 3, 201}}, 0, errEcho},
		{"longer than offered", Chunk{{1, 11, 100}, {2, 0, 200}}, 0, errEcho},
		{"a gap", Chunk{{1, 9, 100}, {2, 1, 200}}, 0, errEcho},
	} {
		if n, err := c.got.Returned(offered); n != c.n || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v", c.name, n, err)
		}
	}
	offered.Unuse()
	if offered.Len() != 0 || offered[0].Offset != 100 {
		t.Errorf("unused: %+v", offered)
	}
}

func TestPlansDoNotAllocate(t *testing.T) {
	data := make([]byte, 5001)
	m := Message{Stream: make([]byte, 128), Items: []xdr.Item{{Off: 128, Data: data}}}
	var l Lists
	src := make([][]byte, 1)
	sgl := make([][]byte, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		l.Reset()
		l.AddWrite(Segment{1, 4096, 0}, Segment{2, 4096, 0})
		if p := PlanReply(m, &l, 4096); p.Form != FormReduced {
			t.Fatalf("%+v, want the form %v", p, FormReduced)
		}
		src[0] = data
		for s := NewScatter(l.Write[0], src); s.Next(); {
			sgl = s.AppendTo(sgl[:0])
		}
		sgl = m.Gather(sgl[:0], 1)
		if _, err := PlanCall(CallSizes{Stream: 100, Sink: 8192, SinkSegments: 1, MaxReply: 128, CallThreshold: 4096, ReplyThreshold: 4096}); err != nil {
			t.Fatalf("PlanCall: %v", err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// left returns the bytes not yet received by any segment.
func left(s *Scatter) int {
	n := -s.at
	for _, b := range s.src {
		n += len(b)
	}
	return n
}
