// Terminate headers: golden bytes, the siw dialect, truncations, round trips, fuzz.

package term

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

const (
	hexWrite = "8140 00ab1207 00007f0000001000"
	hexRead  = "4141 00000000 00000001 00000001 00000000"
	hexRRead = "00cd3401 0000000000010000 00000006 00ef5602 0000000000020000"
	hexInv   = "4144 1a2b3c05 00000000 00000002 00000000"
)

type goldenTerminate struct {
	hex string
	Terminate
}

func golden(t testing.TB) []goldenTerminate {
	return []goldenTerminate{
		{"1100c000 0016" + hexWrite, Terminate{Code: DDPInvalidSTag, HasSegLen: true, SegLen: 0x16, DDP: must.Hex(t, hexWrite)}},
		{"0101e000 002e" + hexRead + hexRRead,
			Terminate{Code: RDMAPBounds, HasSegLen: true, SegLen: 0x2e, DDP: must.Hex(t, hexRead), RDMA: must.Hex(t, hexRRead)}},
		{"0109c000 0016" + hexInv, Terminate{Code: RDMAPForeignInvalidate, HasSegLen: true, SegLen: 0x16, DDP: must.Hex(t, hexInv)}},
		{"20020000", Terminate{Code: MPACRC}},
		{"20060000", Terminate{Code: MPAIRD}},
		{"20070000", Terminate{Code: MPARTR}},
		{"00000000", Terminate{Code: RDMAPLocal}},
	}
}

func same(a, b Terminate) bool {
	return a.Code == b.Code && a.HasSegLen == b.HasSegLen && a.SegLen == b.SegLen && a.swapped == b.swapped &&
		bytes.Equal(a.DDP, b.DDP) && bytes.Equal(a.RDMA, b.RDMA)
}

// TestGolden: each Terminate encodes to its golden bytes, and is parsed from them (RFC 5040 §4.8
// [R5040-054 R5040-055 R5040-058 R5040-059 R5040-060 R5040-061 R5040-079 R5040-080 R5040-081
// R5040-082 R5040-083], RFC 5044 §8 [R5044-164], RFC 6581 §8 [R6581-013]).
func TestGolden(t *testing.T) {
	conformance.Proves(t, "R5040-054", "R5040-055", "R5040-058", "R5040-059", "R5040-060", "R5040-061", "R5040-079", "R5040-080",
		"R5040-081", "R5040-082", "R5040-083", "R5044-164", "R6581-013", "R6581-015", "R6581-016", "R6581-029")
	for _, g := range golden(t) {
		wire := must.Hex(t, g.hex)
		if got := g.Append([]byte{0xee}); !bytes.Equal(got[1:], wire) || got[0] != 0xee {
			t.Errorf("built %x, want %x", got[1:], wire)
		}
		if len(wire) > maxLen {
			t.Errorf("%x: longer than maxLen", wire)
		}
		got, err := Parse(wire, true)
		if err != nil || !same(got, g.Terminate) {
			t.Errorf("%x: parsed %+v, %v", wire, got, err)
		}
		for i := range wire {
			cut, err := Parse(wire[:i], true)
			var want error
			if i < 4 {
				want = errShort
			}
			if err != want {
				t.Errorf("first %d bytes of %x: %v, want %v", i, wire, err, want)
			}
			if err == nil && cut.Code != g.Code {
				t.Errorf("first %d bytes of %x: code %v", i, wire, cut.Code)
			}
		}
	}
}

// TestReservedBits: reserved bits of the header are ignored (RFC 5040 §4.8 [R5040-062]).
func TestReservedBits(t *testing.T) {
	conformance.Proves(t, "R5040-062")
	for _, c := range []string{"1100dfff 0016" + hexWrite, "1100dbff 0016" + hexWrite} {
		got, err := Parse(must.Hex(t, c), false)
		if err != nil || got.Code != DDPInvalidSTag || got.swapped {
			t.Errorf("%s: %+v, %v, want %v", c, got, err, DDPInvalidSTag)
		}
		if got.SegLen != 0x16 || len(got.DDP) != 14 {
			t.Errorf("%s: segment length %#x, %d bytes of its header, want 0x16, 14", c, got.SegLen, len(got.DDP))
		}
	}
	if got, err := Parse(must.Hex(t, "020618ff"), false); err != nil || got.Code != RDMAPOpcode || got.swapped {
		t.Errorf("no headers: %+v, %v, want %v", got, err, RDMAPOpcode)
	}
}

// TestSwapped: a Terminate of a little-endian siw is recognized, and similar ones in the RFC's form
// are not taken for it.
func TestSwapped(t *testing.T) {
	for _, c := range []struct {
		hex     string
		setup   bool
		want    Code
		swapped bool
		segLen  uint16
		ddp     int
	}{
		{"10010700 0000" + hexRead, false, RDMAPBounds, true, 0, 18}, // R is set, but no RDMA header follows
		{"11000300 0008" + hexWrite, false, DDPInvalidSTag, true, 8, 14},
		{"02020000", false, MPACRC, true, 0, 0},
		{"21060000", false, DDPUntaggedVersion, true, 0, 0},
		{"20050000", false, RDMAPVersion, true, 0, 0},
		{"20060000", false, RDMAPOpcode, true, 0, 0},
		{"20050000", true, MPALocal, false, 0, 0},
		{"20060000", true, MPAIRD, false, 0, 0},
		{"20020000", false, MPACRC, false, 0, 0},
		{"20030000", false, MPAMarker, false, 0, 0},
		{"02090000", false, RDMAPCannotInvalidate, false, 0, 0},
		{"12030000", false, DDPMSNRange, false, 0, 0},
		{"21030000", false, DDPMSNRange, true, 0, 0},
		{"99990000", false, Code{9, 9, 0x99}, false, 0, 0},
		{"1100c700 0008" + hexWrite, false, DDPInvalidSTag, false, 8, 14}, // the RFC's bits win
	} {
		got, err := Parse(must.Hex(t, c.hex), c.setup)
		if err != nil || got.Code != c.want || got.swapped != c.swapped {
			t.Errorf("%s: %v, swapped %v, %v, want %v, %v", c.hex, got.Code, got.swapped, err, c.want, c.swapped)
		}
		if got.SegLen != c.segLen || len(got.DDP) != c.ddp || got.RDMA != nil {
			t.Errorf("%s: segment length %d, %d bytes of its header, RDMA header %x, want %d, %d", c.hex, got.SegLen, len(got.DDP), got.RDMA, c.segLen, c.ddp)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Terminate{Code: rows[rapid.IntRange(0, len(rows)-1).Draw(t, "row")].code}
		if want.HasSegLen = rapid.Bool().Draw(t, "M"); want.HasSegLen {
			want.SegLen = rapid.Uint16().Draw(t, "length")
			n := rapid.SampledFrom([]int{0, 14, 18}).Draw(t, "DDP")
			want.DDP = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "header")
			if n > 0 {
				want.DDP[0] = want.DDP[0]&0x7f | byte(n&4)<<5 // T says 14 or 18
			}
			if rapid.Bool().Draw(t, "R") {
				want.RDMA = rapid.SliceOfN(rapid.Byte(), 28, 28).Draw(t, "RDMA")
			}
		}
		got, err := Parse(want.Append(nil), true)
		if err != nil || !same(got, want) {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
	})
}

func TestNoAllocs(t *testing.T) {
	buf := make([]byte, 0, maxLen)
	g := golden(t)[1]
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Parse(g.Append(buf), false); err != nil {
			t.Fatalf("Parse: %v", err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, g := range golden(f) {
		f.Add(must.Hex(f, g.hex), false)
	}
	f.Add(must.Hex(f, "10010700 0000"+hexRead), false)
	f.Add(must.Hex(f, "02020000"), true)
	f.Fuzz(func(t *testing.T, b []byte, setup bool) {
		got, err := Parse(b, setup)
		if err != nil {
			return
		}
		if n := len(got.DDP); n != 0 && n != 14 && n != 18 {
			t.Fatalf("%x: DDP header of %d bytes", b, n)
		}
		if n := len(got.RDMA); n != 0 && n != 28 {
			t.Fatalf("%x: RDMA header of %d bytes", b, n)
		}
		if again := got.Append(nil); len(again) > len(b)+2 {
			t.Fatalf("%x: grew to %x", b, again)
		}
	})
}
