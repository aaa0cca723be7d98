// Markers at every alignment, compared with a naive stream of bytes; damage.

package mpa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// naive lays out an FPDU at stream position pos one byte at a time.
func naive(pos uint32, ulpdu []byte) []byte {
	plain := AppendFPDU(nil, false, ulpdu)
	var out []byte
	header, started := uint32(0), false
	for _, o := range plain[:len(plain)-CRCLen] {
		if pos%markerInterval == 0 {
			ptr := uint32(0)
			if started {
				ptr = pos - header
			}
			out = binary.BigEndian.AppendUint32(out, ptr)
			pos += markerLen
		}
		if !started {
			header, started = pos, true
		}
		out = append(out, o)
		pos++
	}
	if pos%markerInterval == 0 {
		out = binary.BigEndian.AppendUint32(out, pos-header)
	}
	return appendCRC(out, 0, true)
}

// sizes covers each length around the points where one more marker is needed, and some others.
func sizes() []int {
	var s []int
	for l := 1; l <= 64; l++ {
		s = append(s, l)
	}
	for _, mid := range []int{500, 1008, 1448, 1516, 2024} {
		for l := mid - 14; l <= mid+14; l++ {
			s = append(s, l)
		}
	}
	return append(s, 8942, 64768)
}

// FPDUs at every position in the marker interval, in many sizes, equal the naive ones and are
// received (RFC 5044 §4.2 [R5044-029], RFC 5044 §4.3 [R5044-031 R5044-032 R5044-034 R5044-038
// R5044-041 R5044-042], RFC 5044 §4.5 [R5044-070]).
func TestMarkersEveryAlignment(t *testing.T) {
	conformance.Proves(t, "R5044-028", "R5044-029", "R5044-031", "R5044-032", "R5044-033", "R5044-034", "R5044-038", "R5044-041",
		"R5044-042", "R5044-070")
	ulpdu := make([]byte, MaxULPDU)
	for i := range ulpdu {
		ulpdu[i] = byte(i*7 + i>>8)
	}
	var wire []byte
	for pos := uint32(0); pos < markerInterval; pos += 4 {
		for _, base := range []uint32{0, 1<<32 - markerInterval} { // the second wraps around
			for _, l := range sizes() {
				if l > 10000 && pos%64 != 0 {
					continue
				}
				s := MarkerSender{pos: base + pos}
				want := naive(s.pos, ulpdu[:l])
				if n := wireLen(s.pos, l); n != len(want) {
					t.Fatalf("ULPDU %d at %d: length is %d, want %d", l, pos, n, len(want))
				}
				wire = s.Append(wire[:0], true, ulpdu[:l/3], ulpdu[l/3:l])
				if !bytes.Equal(wire, want) {
					t.Fatalf("ULPDU %d at %d: wrong bytes", l, pos)
				}
				r := MarkerReceiver{pos: base + pos}
				if _, n, err := r.Parse(wire[:len(wire)-1], true); n != 0 || err != nil {
					t.Fatalf("ULPDU %d at %d, one byte short: %d, %v", l, pos, n, err)
				}
				got, n, err := r.Parse(wire, true)
				if err != nil || n != len(want) || !bytes.Equal(got, ulpdu[:l]) {
					t.Fatalf("ULPDU %d at %d: %d bytes, %v, want %d", l, pos, n, err, len(want))
				}
				if r.pos != s.pos || r.pos != base+pos+uint32(n) {
					t.Fatalf("ULPDU %d at %d: sender is at %d, receiver at %d", l, pos, s.pos, r.pos)
				}
			}
		}
	}
}

// Each marker of an FPDU is checked when its CRC is good (RFC 5044 §8 [R5044-153]); reserved bytes
// are not (RFC 5044 §4.2 [R5044-027 R5044-030]).
func TestMarkersWrong(t *testing.T) {
	conformance.Proves(t, "R5044-027", "R5044-030", "R5044-153")
	ulpdu := make([]byte, 3000)
	for _, pos := range []uint32{0, 4, 500, 508} {
		good := new(MarkerSender{pos: pos}).Append(nil, true, ulpdu)
		for i := int(-pos % markerInterval); i < len(good); i += markerInterval {
			for o, want := range map[int]error{0: nil, 1: nil, 2: errMarker, 3: errMarker} {
				bad := bytes.Clone(good[:len(good)-CRCLen])
				bad[i+o] ^= 0x14
				bad = appendCRC(bad, 0, true)
				if _, _, err := new(MarkerReceiver{pos: pos}).Parse(bad, true); !errors.Is(err, want) {
					t.Errorf("marker at %d, byte %d wrong: %v, want %v", i, o, err, want)
				}
			}
			low := bytes.Clone(good[:len(good)-CRCLen])
			low[i+3] |= 3
			low = appendCRC(low, 0, true)
			if _, _, err := new(MarkerReceiver{pos: pos}).Parse(low, true); err != nil {
				t.Errorf("marker at %d, low bits set: %v", i, err)
			}
		}
	}
}

// A refused FPDU leaves the bytes unchanged, and a length too long for markers is refused (RFC 5044
// §4.3 [R5044-047]), once its CRC is known to be good.
func TestMarkersLength(t *testing.T) {
	conformance.Proves(t, "R5044-047", "R5044-174")
	for _, c := range []struct {
		l    int
		want error
	}{{0, errEmpty}, {MaxULPDU + 1, errLength}, {65535, errLength}} {
		b := make([]byte, wireLen(0, c.l)-CRCLen)
		binary.BigEndian.PutUint16(b[markerLen:], uint16(c.l))
		b = appendCRC(b, 0, true)
		if len(b) > MaxFPDU {
			t.Errorf("FPDU of %d bytes, more than MaxFPDU", len(b))
		}
		if _, n, err := new(MarkerReceiver).Parse(b, true); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("ULPDU_Length %d: %d, %v", c.l, n, err)
		}
		b[len(b)-1]++
		if _, n, err := new(MarkerReceiver).Parse(b, true); n != 0 || !errors.Is(err, errCRC) {
			t.Errorf("ULPDU_Length %d, bad CRC: %d, %v", c.l, n, err)
		}
	}
	if n := wireLen(0, 65535); n != MaxFPDU { // RFC 5044 §A.5.2 [R5044-174]
		t.Errorf("the longest FPDU is %d bytes", n)
	}
}
