// Tests for segments that end where FPDUs end.

package tap

import (
	"bytes"
	"net"
	"slices"
	"testing"
)

// TestRecordsHoldWholeSegments: a record is one unit, or several of which all but the last fill
// their segment. This holds for any pieces in which they arrive, so no segment ends inside a unit.
func TestRecordsHoldWholeSegments(t *testing.T) {
	const mss = 1400
	const full = mss - 6
	b, ends := stream(full, full, 100, full, full-4, full, full, full, 1, 50, full)
	for step := 1; step < 9000; step += 331 {
		var sent []byte
		s := &splitter{mss: mss, write: func(record []byte) error {
			for n := 0; n < len(record); n += mss {
				if at := len(sent) + n; at > 0 && !slices.Contains(ends, at) {
					t.Errorf("in steps of %d: a segment begins at %d, units end at %v", step, at, ends)
				}
			}
			sent = append(sent, record...)
			return nil
		}}
		for part := range slices.Chunk(b, step) {
			if n, err := s.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if !bytes.Equal(sent, b) {
			t.Fatalf("in steps of %d: %d bytes of %d, or others", step, len(sent), len(b))
		}
	}
}

// TestLimitOfSegments: both ends of a connection keep to the limit that one of them sets.
func TestLimitOfSegments(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	const mss = 1400
	dial := net.Dialer{Control: limit(mss)}
	c, err := dial.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	peer, err := ln.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	defer peer.Close()
	for _, got := range []int{connMSS(c), connMSS(peer)} {
		if got > mss || got < mss-40 {
			t.Errorf("segments of %d bytes, asked for %d", got, mss)
		}
	}
	if got := pathMSS(ln.Addr().String()); got < 16_000 {
		t.Errorf("segments on loopback carry %d bytes", got)
	}
}
