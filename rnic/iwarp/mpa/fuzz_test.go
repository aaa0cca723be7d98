// Arbitrary bytes for each MPA parser: start-up frames, FPDUs, FPDUs with markers.

package mpa

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// FuzzParse: the first byte selects the parser for the rest, and the start position in a stream
// with markers.
func FuzzParse(f *testing.F) {
	for _, g := range goldenFrames {
		kind := byte(0)
		if g.Reply {
			kind = 1
		}
		f.Add(append([]byte{kind}, must.Hex(f, g.hex)...))
	}
	f.Add(AppendFPDU([]byte{2}, false, []byte("hello")))
	f.Add(AppendFPDU([]byte{3}, true, []byte("hello")))
	f.Add(new(MarkerSender).Append([]byte{4}, false, []byte("hello")))
	f.Add((&MarkerSender{pos: 31 * 16}).Append([]byte{5 | 31<<3}, true, make([]byte, 600)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		kind, b := b[0], b[1:]
		switch kind & 7 {
		case 0, 1:
			fuzzFrame(t, b, kind&1 == 1)
		case 2, 3:
			fuzzFPDU(t, b, kind&1 == 1)
		default:
			fuzzMarkers(t, b, uint32(kind>>3)*16, kind&1 == 1)
		}
	})
}

func fuzzFrame(t *testing.T, b []byte, reply bool) {
	frame, n, err := ParseFrame(b, reply)
	if err != nil || n == 0 {
		return
	}
	again := AppendFrame(nil, &frame)
	same, m, err := ParseFrame(again, reply)
	if err != nil || m != n || !sameFrame(same, frame) {
		t.Fatalf("%x: %+v came back as %+v, %v", b, frame, same, err)
	}
	for i := range n {
		if err := checkPrefix(b[:i], reply); err != nil {
			t.Fatalf("good frame, but its first %d bytes: %v", i, err)
		}
	}
}

func fuzzFPDU(t *testing.T, b []byte, crc bool) {
	ulpdu, n, err := ParseFPDU(b, crc)
	if err != nil || n == 0 {
		if ulpdu != nil || n != 0 {
			t.Fatalf("ULPDU or bytes taken with %v", err)
		}
		return
	}
	if n > len(b) || FPDULen(len(ulpdu)) != n {
		t.Fatalf("%d bytes for a ULPDU of %d", n, len(ulpdu))
	}
	if _, m, err := ParseFPDU(b[:n-1], crc); m != 0 || err != nil {
		t.Fatalf("one byte short: %d, %v", m, err)
	}
}

func fuzzMarkers(t *testing.T, b []byte, pos uint32, crc bool) {
	r := MarkerReceiver{pos: pos}
	in := bytes.Clone(b)
	ulpdu, n, err := r.Parse(b, crc)
	if err != nil || n == 0 {
		if ulpdu != nil || n != 0 || r.pos != pos || !bytes.Equal(in, b) {
			t.Fatalf("%v, n %d: returned %x, moved from %d to %d", err, n, ulpdu, pos, r.pos)
		}
		return
	}
	s := MarkerSender{pos: pos}
	again := s.Append(nil, crc, ulpdu)
	if len(again) != n || s.pos != r.pos {
		t.Fatalf("%d bytes came back as %d", n, len(again))
	}
	r = MarkerReceiver{pos: pos}
	same, _, err := r.Parse(again, crc)
	if err != nil || !bytes.Equal(same, ulpdu) {
		t.Fatalf("ULPDU came back as %x, %v", same, err)
	}
}
