// FPDUs without markers: sizes, golden bytes, damage, round trips.

package mpa

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestPad: an FPDU is padded to a multiple of four bytes (RFC 5044 §4.1 [R5044-018 R5044-023]).
func TestPad(t *testing.T) {
	conformance.Proves(t, "R5044-018", "R5044-023")
	for i, want := range []int{1, 0, 3, 2, 1, 0, 3, 2} {
		if got := Pad(i + 1); got != want {
			t.Errorf("Pad(%d) = %d, want %d", i+1, got, want)
		}
	}
	if n := FPDULen(1); n != 8 {
		t.Errorf("the smallest FPDU is %d bytes", n)
	}
	for l := 1; l <= 0xffff; l++ {
		if n := FPDULen(l); n%4 != 0 || n < l+6 || n > l+9 {
			t.Fatalf("FPDULen(%d) = %d, want a multiple of 4 from %d to %d", l, n, l+6, l+9)
		}
	}
}

// TestMULPDU checks the MULPDU for segment sizes from small to large, with and without markers (RFC
// 5044 §3 [R5044-006], RFC 5044 §4.5 [R5044-068 R5044-069 R5044-074], RFC 5044 §9.1 [R5044-165]).
func TestMULPDU(t *testing.T) {
	conformance.Proves(t, "R5041-148", "R5044-004", "R5044-006", "R5044-068", "R5044-069", "R5044-074", "R5044-075", "R5044-165")
	for _, c := range []struct{ emss, plain, marked int }{
		{0, 128, 128}, {64, 128, 128}, {100, 128, 128}, {128, 128, 128}, {536, 530, 522}, {1220, 1214, 1202},
		{1448, 1442, 1430}, {1460, 1454, 1442}, {1461, 1454, 1442}, {8948, 8942, 8870}, {8960, 8954, 8882},
		{65483, 64766, 64766}, {1 << 30, 64766, 64766},
	} {
		if got := MULPDU(c.emss, false); got != c.plain {
			t.Errorf("MULPDU(%d, no markers) = %d, want %d", c.emss, got, c.plain)
		}
		if got := MULPDU(c.emss, true); got != c.marked {
			t.Errorf("MULPDU(%d, markers) = %d, want %d", c.emss, got, c.marked)
		}
	}
}

// An FPDU of MULPDU bytes fits in its segment at each phase of the markers (RFC 5044 §4.5
// [R5044-070]).
func TestMULPDUFits(t *testing.T) {
	conformance.Proves(t, "R5044-070")
	for emss := 160; emss <= 65535; emss += 1 + emss/97 {
		if n := FPDULen(MULPDU(emss, false)); n > emss {
			t.Fatalf("EMSS %d: FPDU of %d", emss, n)
		}
		if p := Pad(MULPDU(emss, false)); p != 0 {
			t.Fatalf("EMSS %d: a full FPDU has %d bytes of pad", emss, p)
		}
		l := MULPDU(emss, true)
		for pos := uint32(0); pos < markerInterval; pos += 4 {
			if n := wireLen(pos, l); n > emss {
				t.Fatalf("EMSS %d: FPDU of %d at %d", emss, n, pos)
			}
		}
	}
}

// Any single wrong byte is detected (RFC 5044 §4.4 [R5044-064], RFC 5044 §6 [R5044-087]).
func TestFPDUFlips(t *testing.T) {
	conformance.Proves(t, "R5044-064", "R5044-085", "R5044-087")
	good := AppendFPDU(nil, true, []byte("some ULPDU or other, of 35 bytes!!!"))
	good = append(good, make([]byte, 1<<16)...) // so that a longer length has enough bytes
	for i := range good[:FPDULen(35)] {
		for bit := range 8 {
			good[i] ^= 1 << bit
			if ulpdu, _, err := ParseFPDU(good, true); ulpdu != nil || !errors.Is(err, errCRC) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
			good[i] ^= 1 << bit
		}
	}
	if _, _, err := ParseFPDU(good, true); err != nil {
		t.Errorf("undamaged: %v", err)
	}
}

// With CRCs off the CRC field is present, and ignored (RFC 5044 §4.1 [R5044-021 R5044-022], RFC
// 5044 §4.4 [R5044-055], RFC 5044 §7.1.1 [R5044-107]).
func TestFPDUNoCRC(t *testing.T) {
	conformance.Proves(t, "R5044-021", "R5044-022", "R5044-055", "R5044-057", "R5044-107")
	b := []byte("\x00\x05hello\x00\xff\xff\xff\xff\x00\x01x\x00\x01\x02\x03\x04")
	got, rest, err := split(b, false, false)
	if want := [][]byte{[]byte("hello"), []byte("x")}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if len(rest) != 0 {
		t.Errorf("%q is left", rest)
	}
}

// RFC 5044 §4.1 [R5044-024]: an empty ULPDU is an error.
func TestFPDUEmpty(t *testing.T) {
	conformance.Proves(t, "R5044-024")
	b := appendCRC([]byte{0, 0, 0, 0}, 0, true)
	for _, crc := range []bool{true, false} {
		ulpdu, n, err := ParseFPDU(b, crc)
		if code, _ := term.CodeOf(err); ulpdu != nil || n != 0 || code != term.MPAMarker {
			t.Errorf("crc %v: %x, %d, %v, want %v", crc, ulpdu, n, err, term.MPAMarker)
		}
	}
	b[7]++
	if _, _, err := ParseFPDU(b, true); !errors.Is(err, errCRC) {
		t.Errorf("the length is believed before the CRC: %v", err)
	}
}

// Any 16-bit length is accepted without markers (RFC 5044 §3 [R5044-009]).
func TestFPDULongest(t *testing.T) {
	conformance.Proves(t, "R5041-150", "R5044-009")
	for _, l := range []int{64768, 64769, 65474, 65535} {
		b := append([]byte{byte(l >> 8), byte(l)}, make([]byte, l+Pad(l))...)
		b = appendCRC(b, 0, true)
		if len(b) > MaxFPDU {
			t.Errorf("FPDU of %d bytes, more than MaxFPDU", len(b))
		}
		if ulpdu, n, err := ParseFPDU(b, true); len(ulpdu) != l || n != len(b) || err != nil {
			t.Errorf("%d: %d bytes of %d, %v, want all of %d", l, len(ulpdu), n, err, len(b))
		}
	}
}

// RFC 5044 §3 [R5044-007 R5044-008]: ULPDUs with an allowed length can be sent, and no others.
func TestSendLengths(t *testing.T) {
	conformance.Proves(t, "R5041-149", "R5044-007", "R5044-008")
	for _, c := range []struct {
		l  int
		ok bool
	}{{0, false}, {1, true}, {MaxULPDU, true}, {MaxULPDU + 1, false}} {
		for _, markers := range []bool{false, true} {
			ulpdu := make([]byte, c.l)
			var wire []byte
			ok := func() (ok bool) {
				defer func() { ok = recover() == nil }()
				if markers {
					wire = new(MarkerSender).Append(nil, true, ulpdu)
				} else {
					wire = AppendFPDU(nil, true, ulpdu)
				}
				return true
			}()
			if ok != c.ok {
				t.Errorf("%d bytes, markers %v: sent is %v", c.l, markers, ok)
			}
			if !c.ok {
				continue
			}
			if got, _, err := split(wire, markers, true); err != nil || len(got) != 1 {
				t.Errorf("%d bytes, markers %v: %d ULPDUs, %v", c.l, markers, len(got), err)
			} else if len(got[0]) != c.l {
				t.Errorf("%d bytes, markers %v: %d arrived", c.l, markers, len(got[0]))
			}
		}
	}
}

func TestFPDURoundTrip(t *testing.T) {
	conformance.Proves(t, "R5044-003", "R5044-044", "R5044-081")
	rapid.Check(t, func(t *rapid.T) {
		crc := rapid.Bool().Draw(t, "crc")
		markers := rapid.Bool().Draw(t, "markers")
		want := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 1500), 1, 20).Draw(t, "ULPDUs")
		var wire []byte
		var s MarkerSender
		for _, u := range want {
			cut := rapid.IntRange(0, len(u)).Draw(t, "cut")
			if markers {
				wire = s.Append(wire, crc, u[:cut], u[cut:])
			} else {
				wire = AppendFPDU(wire, crc, u[:cut], u[cut:])
			}
		}
		got, rest, err := split(wire, markers, crc)
		if err != nil || len(rest) != 0 || len(got) != len(want) {
			t.Fatalf("%d of %d ULPDUs, %d bytes left, %v", len(got), len(want), len(rest), err)
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("ULPDU %d is %x, want %x", i, got[i], want[i])
			}
		}
	})
}

// Neither sending nor receiving an FPDU allocates.
func TestNoAllocs(t *testing.T) {
	head, payload := make([]byte, 14), make([]byte, 40000)
	rand.NewChaCha8([32]byte{}).Read(payload)
	buf := make([]byte, 0, MaxFPDU)
	var s MarkerSender
	var r MarkerReceiver
	for name, f := range map[string]func() int{
		"plain": func() int {
			wire := AppendFPDU(buf, true, head, payload)
			_, n, _ := ParseFPDU(wire, true)
			return n
		},
		"markers": func() int {
			wire := s.Append(buf, true, head, payload)
			_, n, _ := r.Parse(wire, true)
			return n
		},
		"bad CRC": func() int {
			wire := AppendFPDU(buf, false, head, payload)
			_, _, err := ParseFPDU(wire, true)
			if err == nil {
				return 0
			}
			return 1
		},
	} {
		if n := testing.AllocsPerRun(20, func() {
			if f() == 0 {
				t.Fatalf("%s: not received", name)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
