// The test vectors of testdata/mpa-vectors.json, all of them, in both directions.

package mpa

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// hexBytes are bytes written as a hex string in JSON.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

type vector struct {
	Name, Kind, Expect string

	Input    hexBytes `json:"input_hex"`
	CRCValue string   `json:"crc_value"`
	CRCWire  hexBytes `json:"crc_wire_hex"`

	Markers bool       `json:"markers_enabled"`
	CRC     bool       `json:"crc_enabled"`
	Offset  uint32     `json:"stream_offset"`
	FPDU    hexBytes   `json:"fpdu_hex"`
	ULPDU   hexBytes   `json:"ulpdu_hex"`
	Stream  hexBytes   `json:"stream_hex"`
	ULPDUs  []hexBytes `json:"ulpdus_hex"`
	FPDUs   []struct{ Start, Header, End int }

	Frame      hexBytes `json:"frame_hex"`
	Valid      bool
	Key        string
	M, C, R, S int
	Res, Rev   int
	PDLength   int `json:"pd_length"`
	Enhanced   *struct {
		A, B, C, D, IRD, ORD int
		ULP                  hexBytes `json:"ulp_private_data_hex"`
	}
}

func vectors(t *testing.T, kind string) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/mpa-vectors.json")
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	var all struct{ Vectors []vector }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatalf("Unmarshal: %v", err)
	}
	var of []vector
	for _, v := range all.Vectors {
		if v.Kind == kind {
			of = append(of, v)
		}
	}
	if len(of) == 0 {
		t.Fatalf("no vectors of kind %q", kind)
	}
	return of
}

// TestVectorsCRC: CRC32C computes the CRC of each vector (RFC 5044 §4.4 [R5044-048 R5044-058
// R5044-059]).
func TestVectorsCRC(t *testing.T) {
	conformance.Proves(t, "R5044-048", "R5044-058", "R5044-059")
	for _, v := range vectors(t, "crc32c") {
		want, err := strconv.ParseUint(v.CRCValue, 0, 32)
		if err != nil {
			t.Fatalf("ParseUint: %v", err)
		}
		if got := CRC32C(v.Input); got != uint32(want) {
			t.Errorf("%s: CRC %#x, want %#x", v.Name, got, want)
		}
		half := len(v.Input) / 2
		if got := UpdateCRC(CRC32C(v.Input[:half]), v.Input[half:]); got != uint32(want) {
			t.Errorf("%s: CRC in two parts %#x, want %#x", v.Name, got, want)
		}
		var wire [CRCLen]byte
		PutCRC(wire[:], uint32(want))
		if !bytes.Equal(wire[:], v.CRCWire) {
			t.Errorf("%s: on the wire %x, want %x", v.Name, wire, v.CRCWire)
		}
	}
}

// FPDUs with markers are sent as in figures 5 and 6 of the RFC: RFC 5044 §4.1 [R5044-017], RFC 5044
// §4.2 [R5044-025], RFC 5044 §4.3 [R5044-037 R5044-045], RFC 5044 §4.4 [R5044-060 R5044-061
// R5044-063 R5044-066 R5044-067].
func TestVectorsFigures(t *testing.T) {
	conformance.Proves(t, "R5044-017", "R5044-025", "R5044-037", "R5044-045", "R5044-048", "R5044-058", "R5044-060", "R5044-061",
		"R5044-063", "R5044-066", "R5044-067")
	for _, v := range vectors(t, "fpdu") {
		s := MarkerSender{pos: v.Offset}
		if got := wireLen(s.pos, len(v.ULPDU)); got != len(v.FPDU) {
			t.Errorf("%s: length %d, want %d", v.Name, got, len(v.FPDU))
		}
		if got := s.Append(nil, true, v.ULPDU); !bytes.Equal(got, v.FPDU) {
			t.Errorf("%s: sent\n%x, want\n%x", v.Name, got, v.FPDU)
		}
		r := MarkerReceiver{pos: v.Offset}
		ulpdu, n, err := r.Parse(bytes.Clone(v.FPDU), true)
		if err != nil || n != len(v.FPDU) || !bytes.Equal(ulpdu, v.ULPDU) {
			t.Errorf("%s: received %x (%d bytes), %v, want %x", v.Name, ulpdu, n, err, v.ULPDU)
		}
	}
}

// An FPDU has the layout of the RFC's figure 4, which gives no values (RFC 5044 §4.3 [R5044-043]).
func TestVectorFigure4(t *testing.T) {
	conformance.Proves(t, "R5044-043")
	ulpdu := []byte("0123456789abcdef")
	s := MarkerSender{pos: 500}
	got := s.Append(nil, false, ulpdu)
	want := "\x00\x10" + "0123456789" + "\x00\x00\x00\x0c" + "abcdef" + "\x00\x00" + "\x00\x00\x00\x00"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A splitter parses the next FPDU of a stream, with or without markers.
type splitter func(b []byte, crc bool) ([]byte, int, error)

func receiver(markers bool) splitter {
	if markers {
		return new(MarkerReceiver).Parse
	}
	return ParseFPDU
}

// split takes FPDUs off b until it is used up or wrong.
func split(b []byte, markers, crc bool) (ulpdus [][]byte, rest []byte, err error) {
	next := receiver(markers)
	for len(b) > 0 {
		ulpdu, n, err := next(b, crc)
		if err != nil || n == 0 {
			return ulpdus, b, err
		}
		ulpdus = append(ulpdus, bytes.Clone(ulpdu))
		b = b[n:]
	}
	return ulpdus, b, nil
}

func wantULPDUs(t *testing.T, v vector, got [][]byte) {
	t.Helper()
	if len(got) != len(v.ULPDUs) {
		t.Fatalf("%s: %d ULPDUs, want %d", v.Name, len(got), len(v.ULPDUs))
	}
	for i := range got {
		if !bytes.Equal(got[i], v.ULPDUs[i]) {
			t.Errorf("%s: ULPDU %d is\n%x, want\n%x", v.Name, i, got[i], v.ULPDUs[i])
		}
	}
}

// The vectors' streams are received as their ULPDUs: RFC 5044 §1.2 [R5044-001], RFC 5044 §3
// [R5044-010], RFC 5044 §4.1 [R5044-020 R5044-022], RFC 5044 §4.2 [R5044-027 R5044-030], RFC 5044
// §4.3 [R5044-036 R5044-044 R5044-045 R5044-046], RFC 5044 §4.4 [R5044-062], RFC 5044 §5.2
// [R5044-081], RFC 5044 §7.1.1 [R5044-107].
func TestVectorsReceive(t *testing.T) {
	conformance.Proves(t, "R5044-001", "R5044-010", "R5044-020", "R5044-022", "R5044-027", "R5044-030", "R5044-036", "R5044-044",
		"R5044-045", "R5044-046", "R5044-062", "R5044-081", "R5044-107")
	for _, v := range vectors(t, "stream") {
		got, rest, err := split(bytes.Clone(v.Stream), v.Markers, v.CRC)
		if err != nil || len(rest) != 0 {
			t.Errorf("%s: %d bytes left, %v", v.Name, len(rest), err)
		}
		wantULPDUs(t, v, got)
	}
}

// The vectors' ULPDUs are sent as their streams: RFC 5044 §3 [R5044-003], RFC 5044 §4.1 [R5044-016
// R5044-019], RFC 5044 §4.2 [R5044-026 R5044-028], RFC 5044 §4.3 [R5044-032 R5044-033 R5044-035
// R5044-039 R5044-040], RFC 5044 §7.1.2 [R5044-137].
func TestVectorsSend(t *testing.T) {
	conformance.Proves(t, "R5044-003", "R5044-016", "R5044-019", "R5044-026", "R5044-028", "R5044-032", "R5044-033", "R5044-035",
		"R5044-036", "R5044-039", "R5044-040", "R5044-062", "R5044-137")
	for _, v := range vectors(t, "stream") {
		if v.Expect != "" { // bytes that our senders never make
			continue
		}
		var got []byte
		var s MarkerSender
		for _, ulpdu := range v.ULPDUs {
			if v.Markers {
				got = s.Append(got, v.CRC, ulpdu)
			} else {
				got = AppendFPDU(got, v.CRC, ulpdu)
			}
		}
		if !bytes.Equal(got, v.Stream) {
			t.Errorf("%s: sent\n%x, want\n%x", v.Name, got, v.Stream)
		}
	}
}

// In any pieces, an FPDU is delivered when its last byte has arrived, and not before (RFC 5044 §5.1
// [R5044-080], RFC 5044 §6 [R5044-086], RFC 5044 §4.3 [R5044-042]).
func TestVectorsByteByByte(t *testing.T) {
	conformance.Proves(t, "R5041-011", "R5044-042", "R5044-080", "R5044-086")
	for _, v := range vectors(t, "stream") {
		if len(v.FPDUs) == 0 {
			continue
		}
		next, in, start := receiver(v.Markers), bytes.Clone(v.Stream), 0
		for i, want := range v.FPDUs {
			for end := start; end < want.End; end++ {
				if _, n, err := next(in[start:end], v.CRC); n != 0 || err != nil {
					t.Fatalf("%s: FPDU %d done or wrong at byte %d: %v", v.Name, i, end, err)
				}
			}
			ulpdu, n, err := next(in[start:want.End], v.CRC)
			if err != nil || start+n != want.End || !bytes.Equal(ulpdu, v.ULPDUs[i]) {
				t.Fatalf("%s: FPDU %d: %d bytes, %v", v.Name, i, n, err)
			}
			start += n
		}
	}
}

// Each bad FPDU is refused with its code, after the good FPDUs before it: RFC 5044 §4.4 [R5044-064
// R5044-065], RFC 5044 §8 [R5044-152 R5044-153 R5044-156 R5044-161].
func TestVectorsRefused(t *testing.T) {
	conformance.Proves(t, "R5044-059", "R5044-064", "R5044-065", "R5044-085", "R5044-152", "R5044-153", "R5044-156", "R5044-161")
	want := map[string]struct {
		code  term.Code
		first int // good FPDUs before the bad one
	}{
		"bad-crc-payload-bit":  {term.MPACRC, 0},
		"bad-crc-byte-order":   {term.MPACRC, 0},
		"bad-fpduptr-good-crc": {term.MPAMarker, 1},
	}
	for _, v := range vectors(t, "negative-stream") {
		w, ok := want[v.Name]
		if !ok {
			t.Errorf("%s: no expectation here", v.Name)
		}
		got, _, err := split(bytes.Clone(v.Stream), v.Markers, v.CRC)
		if code, _ := term.CodeOf(err); code != w.code || len(got) != w.first {
			t.Errorf("%s: %d ULPDUs, %v; want %d, %v", v.Name, len(got), err, w.first, w.code)
		}
	}
}

// Valid start-up frames are parsed, and built again: RFC 5044 §7.1 [R5044-093], RFC 5044 §7.1.1
// [R5044-096 R5044-097 R5044-099 R5044-109 R5044-112 R5044-116 R5044-119], RFC 6581 §6 [R6581-004
// R6581-005 R6581-011], RFC 6581 §9 [R6581-017], RFC 6581 §9.1 [R6581-034].
func TestVectorsFrames(t *testing.T) {
	conformance.Proves(t, "R5044-093", "R5044-096", "R5044-097", "R5044-099", "R5044-109", "R5044-112", "R5044-116", "R5044-119",
		"R6581-004", "R6581-005", "R6581-011", "R6581-017", "R6581-034")
	for _, v := range vectors(t, "mpa-frame") {
		if !v.Valid {
			continue
		}
		reply := v.Key == replyKey
		f, n, err := ParseFrame(v.Frame, reply)
		if err != nil || n != len(v.Frame) {
			t.Errorf("%s: %d bytes, %v", v.Name, n, err)
			continue
		}
		want := Frame{Reply: reply, Markers: v.M == 1, CRC: v.C == 1, Reject: reply && v.R == 1, Rev: uint8(v.Rev), PrivateData: v.Frame[HeaderLen:]}
		if e := v.Enhanced; e != nil {
			want.HasEnhanced, want.PrivateData = true, e.ULP
			want.Enhanced = Enhanced{e.A == 1, e.B == 1, e.C == 1, e.D == 1, uint16(e.IRD), uint16(e.ORD)}
		}
		if !sameFrame(f, want) {
			t.Errorf("%s: parsed %+v, want %+v", v.Name, f, want)
		}
		if v.Res != 0 || v.R == 1 && !reply { // bytes that our senders never make
			continue
		}
		if got := AppendFrame(nil, &want); !bytes.Equal(got, v.Frame) {
			t.Errorf("%s: built\n%x, want\n%x", v.Name, got, v.Frame)
		}
	}
}

func sameFrame(a, b Frame) bool {
	same := bytes.Equal(a.PrivateData, b.PrivateData)
	a.PrivateData, b.PrivateData = nil, nil
	return same && a.Reply == b.Reply && a.Markers == b.Markers && a.CRC == b.CRC && a.Reject == b.Reject &&
		a.Rev == b.Rev && a.HasEnhanced == b.HasEnhanced && a.Enhanced == b.Enhanced
}

// Invalid start-up frames are refused, each with its error: RFC 5044 §7.1.1 [R5044-098 R5044-114
// R5044-117], RFC 5044 §7.1.2 [R5044-138 R5044-140], RFC 5044 §8 [R5044-154], RFC 6581 §6
// [R6581-012].
func TestVectorsFramesRefused(t *testing.T) {
	conformance.Proves(t, "R5044-098", "R5044-114", "R5044-117", "R5044-138", "R5044-140", "R5044-154", "R6581-012")
	want := map[string]struct {
		reply bool
		err   error
	}{
		"bad-key-last-byte":       {false, ErrKey},
		"bad-initiator-initiator": {true, ErrInitiators},
		"bad-pd-length-513":       {false, ErrPDLength},
		"bad-pd-length-short":     {false, nil}, // more bytes are needed, so no error yet
		"bad-S-with-pd3":          {false, ErrEnhanced},
		"bad-rev3":                {false, errRev},
	}
	for _, v := range vectors(t, "mpa-frame") {
		if v.Valid {
			continue
		}
		w, ok := want[v.Name]
		if !ok {
			t.Errorf("%s: no expectation here", v.Name)
		}
		_, n, err := ParseFrame(v.Frame, w.reply)
		if n != 0 || !errors.Is(err, w.err) {
			t.Errorf("%s: %d bytes, %v; want %v", v.Name, n, err, w.err)
		}
	}
}
