// Record marking: every split, every truncation, every limit.

package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// fragment returns one fragment with its header.
func fragment(b []byte, last bool) []byte {
	v := uint32(len(b))
	if last {
		v |= lastFragment
	}
	return append(binary.BigEndian.AppendUint32(nil, v), b...)
}

// records reads a whole stream.
func records(r io.Reader, window, limit int) (got [][]byte, err error) {
	rd := newRecordReader(r, window, limit)
	for {
		rec, err := rd.next()
		if err != nil {
			return got, err
		}
		got = append(got, slices.Clone(rec.B))
		rec.Put()
	}
}

func TestRecordGolden(t *testing.T) {
	stream := []byte{
		0x80, 0, 0, 4, 'a', 'b', 'c', 'd', // one fragment
		0, 0, 0, 1, 'e', 0, 0, 0, 0, 0x80, 0, 0, 2, 'f', 'g', // three, one empty
		0, 0, 0, 2, 'h', 'i', 0x80, 0, 0, 0, // the last one empty
		0x80, 0, 0, 0, // an empty record
	}
	want := [][]byte{[]byte("abcd"), []byte("efg"), []byte("hi"), {}}
	for name, r := range map[string]io.Reader{
		"whole":    bytes.NewReader(stream),
		"by bytes": iotest.OneByteReader(bytes.NewReader(stream)),
		"halves":   iotest.HalfReader(bytes.NewReader(stream)),
	} {
		got, err := records(r, 64, 100)
		if err != io.EOF || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Every split of a record into two and three fragments yields the same record.
func TestRecordSplits(t *testing.T) {
	msg := []byte("0123456789abcdef")
	for i := range len(msg) + 1 {
		for j := i; j <= len(msg); j++ {
			s := slices.Concat(fragment(msg[:i], false), fragment(msg[i:j], false), fragment(msg[j:], true))
			got, err := records(bytes.NewReader(s), 8, 16)
			if err != io.EOF || len(got) != 1 || !bytes.Equal(got[0], msg) {
				t.Fatalf("cuts %d %d: %q, %v", i, j, got, err)
			}
		}
	}
}

func TestRecordTruncated(t *testing.T) {
	whole := slices.Concat(fragment([]byte("abc"), false), fragment([]byte("defgh"), true))
	for n := 1; n < len(whole); n++ {
		got, err := records(bytes.NewReader(whole[:n]), 16, 16)
		if err != io.ErrUnexpectedEOF || len(got) != 0 {
			t.Errorf("%d bytes: %q, %v", n, got, err)
		}
	}
}

func TestRecordLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stream []byte
		want   error
	}{
		{"at the limit", fragment(make([]byte, 100), true), io.EOF},
		{"over the limit", fragment(make([]byte, 101), true), errRecordSize},
		{"length alone", []byte{0xff, 0xff, 0xff, 0xff}, errRecordSize},
		{"sum over the limit", slices.Concat(fragment(make([]byte, 60), false), fragment(make([]byte, 41), true)), errRecordSize},
		{"empty fragments without end", bytes.Repeat([]byte{0, 0, 0, 0}, maxFragments+1), errRecordFragments},
	} {
		if _, err := records(bytes.NewReader(tc.stream), 64, 100); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// The XID of a record over the limit is known, wherever its fragments end.
func TestOverlongXID(t *testing.T) {
	b := append([]byte{1, 2, 3, 4}, make([]byte, 97)...)
	for cut := range b {
		s := slices.Concat(fragment(b[:cut], false), fragment(b[cut:], true))
		rd := newRecordReader(bytes.NewReader(s), 64, 100)
		if _, err := rd.next(); !errors.Is(err, errRecordSize) {
			t.Fatalf("cut at %d: got %v, want errRecordSize", cut, err)
		}
		if xid, err := rd.overlongXID(); xid != 0x01020304 || err != nil {
			t.Errorf("cut at %d: got XID %#x, %v, want 0x1020304", cut, xid, err)
		}
	}
	rd := newRecordReader(bytes.NewReader(fragment(make([]byte, 101), true)[:6]), 64, 100)
	_, _ = rd.next()
	if _, err := rd.overlongXID(); err != io.ErrUnexpectedEOF {
		t.Errorf("two bytes of an XID: got %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

// A large record is charged in full, once, before its bytes are read.
func TestRecordCharge(t *testing.T) {
	part := make([]byte, 10<<10)
	for _, tc := range []struct {
		name   string
		stream []byte
		want   []int
	}{
		{"small", fragment(part, true), nil},
		{"one fragment", binary.BigEndian.AppendUint32(nil, lastFragment|90000), []int{90000}},
		{"more may follow", slices.Concat(fragment(part, false), fragment(part, false), fragment(part, true)), []int{100000}},
		{"last one large", slices.Concat(fragment(part, false), fragment(part, true)), []int{20 << 10}},
	} {
		var got []int
		rd := newRecordReader(bytes.NewReader(tc.stream), 64, 100000)
		rd.charge = func(n int) error { got = append(got, n); return nil }
		rec, _ := rd.next()
		rec.Put()
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: charged %v, want %v", tc.name, got, tc.want)
		}
	}
	rd := newRecordReader(bytes.NewReader(fragment(make([]byte, 90000), true)), 64, 100000)
	rd.charge = func(int) error { return errNoMemory }
	if _, err := rd.next(); err != errNoMemory {
		t.Errorf("no memory: %v", err)
	}
}

// A recordReader reads the records of a gather: items and pads in place, copied or referenced.
func TestGatherRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var g gatherList
	var out bytes.Buffer
	var want [][]byte
	marks := make([][markLen]byte, 40)
	for i := range marks {
		var e, flat xdr.Encoder
		for range rng.IntN(4) + 1 {
			b := make([]byte, rng.IntN(5000))
			fill(b)
			e.Uint32(7)
			flat.Uint32(7)
			e.Item(b)
			flat.Opaque(b)
		}
		e.Uint32(9)
		flat.Uint32(9)
		g.message(&marks[i], &e)
		want = append(want, slices.Clone(flat.Bytes()))
	}
	if err := g.writeTo(&out, nil); err != nil {
		t.Fatalf("writeTo: %v", err)
	}
	got, err := records(&out, 4096, 1<<20)
	if err != io.EOF || !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d records of %d, %v", len(got), len(want), err)
	}
}
