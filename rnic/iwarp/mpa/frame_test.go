// Start-up frames: golden bytes, prefixes, truncations, round trips.

package mpa

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

const (
	hexRequest = "4d504120494420526571204672616d65"
	hexReply   = "4d504120494420526570204672616d65"
)

var goldenFrames = []struct {
	hex string
	Frame
}{
	{hexRequest + "40 01 0000", Frame{CRC: true, Rev: 1}},
	{hexReply + "40 01 0000", Frame{Reply: true, CRC: true, Rev: 1}},
	{hexReply + "60 01 0000", Frame{Reply: true, CRC: true, Reject: true, Rev: 1}},
	{hexRequest + "c0 01 0005 68656c6c6f", Frame{Markers: true, CRC: true, Rev: 1, PrivateData: []byte("hello")}},
	{hexRequest + "50 02 0004 0010 0000", Frame{CRC: true, Rev: 2, HasEnhanced: true, Enhanced: Enhanced{IRD: 16}}},
	{hexReply + "50 02 0004 0000 0010", Frame{Reply: true, CRC: true, Rev: 2, HasEnhanced: true, Enhanced: Enhanced{ORD: 16}}},
	{hexRequest + "50 02 0004 c008 c008", Frame{CRC: true, Rev: 2, HasEnhanced: true,
		Enhanced: Enhanced{PeerToPeer: true, RTRSend: true, RTRWrite: true, RTRRead: true, IRD: 8, ORD: 8}}},
	{hexReply + "50 02 0004 8008 8008", Frame{Reply: true, CRC: true, Rev: 2, HasEnhanced: true,
		Enhanced: Enhanced{PeerToPeer: true, RTRWrite: true, IRD: 8, ORD: 8}}},
	{hexRequest + "50 02 000c 0010 0000 f6ab0e18 01000303", Frame{CRC: true, Rev: 2, HasEnhanced: true,
		Enhanced: Enhanced{IRD: 16}, PrivateData: []byte("\xf6\xab\x0e\x18\x01\x00\x03\x03")}},
	{hexRequest + "10 02 000c 0080 0000 f6ab0e18 01010303", Frame{Rev: 2, HasEnhanced: true,
		Enhanced: Enhanced{IRD: 128}, PrivateData: []byte("\xf6\xab\x0e\x18\x01\x01\x03\x03")}},
}

// TestFrameGolden: each frame encodes to its golden bytes, and is parsed from them (RFC 5044 §7.1.1
// [R5044-097 R5044-099 R5044-111], RFC 6581 §6 [R6581-006 R6581-008]).
func TestFrameGolden(t *testing.T) {
	conformance.Proves(t, "R5044-096", "R5044-097", "R5044-099", "R5044-108", "R5044-110", "R5044-111", "R5044-113", "R5044-116",
		"R6581-006", "R6581-008")
	for _, g := range goldenFrames {
		wire := must.Hex(t, g.hex)
		if got := AppendFrame([]byte{0xee}, &g.Frame); !bytes.Equal(got[1:], wire) || got[0] != 0xee {
			t.Errorf("built\n%x, want\n%x", got[1:], wire)
		}
		f, n, err := ParseFrame(append(bytes.Clone(wire), "next"...), g.Reply)
		if err != nil || n != len(wire) || !sameFrame(f, g.Frame) {
			t.Errorf("%x: parsed %+v, %d bytes, %v, want %+v", wire, f, n, err, g.Frame)
		}
	}
}

// A frame cut anywhere is no error, but makes the parser request more bytes.
func TestFrameTruncated(t *testing.T) {
	for _, g := range goldenFrames {
		wire := must.Hex(t, g.hex)
		for i := range wire {
			if err := checkPrefix(wire[:i], g.Reply); err != nil {
				t.Fatalf("first %d bytes of %x: %v", i, wire, err)
			}
			if _, n, err := ParseFrame(wire[:i], g.Reply); n != 0 || err != nil {
				t.Fatalf("first %d bytes of %x: n %d, %v", i, wire, n, err)
			}
		}
	}
}

// Other protocols' traffic is detected at its first wrong byte (RFC 5044 §7.1.3 [R5044-144]).
func TestPrefixFirstWrongByte(t *testing.T) {
	conformance.Proves(t, "R5044-098", "R5044-135", "R5044-144")
	if err := checkPrefix([]byte("G"), false); !errors.Is(err, ErrKey) {
		t.Errorf("GET: %v", err)
	}
	good := must.Hex(t, hexRequest)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x20
		if err := checkPrefix(bad[:i], false); err != nil {
			t.Errorf("byte %d not there yet: %v", i, err)
		}
		if err := checkPrefix(bad[:i+1], false); !errors.Is(err, ErrKey) {
			t.Errorf("byte %d wrong: %v", i, err)
		}
	}
}

// Two initiators, and two responders, are distinguished from noise (RFC 5044 §7.1 [R5044-095], RFC
// 5044 §7.1.2 [R5044-138]).
func TestPrefixSameRole(t *testing.T) {
	conformance.Proves(t, "R5044-095", "R5044-138")
	request, reply := must.Hex(t, hexRequest), must.Hex(t, hexReply)
	for i := range keyLen + 1 {
		var initiators, responders error
		if i > 9 { // the keys differ at byte 9
			initiators, responders = ErrInitiators, errResponders
		}
		if err := checkPrefix(request[:i], true); !errors.Is(err, initiators) {
			t.Errorf("%d bytes of a Request for a Reply: %v", i, err)
		}
		if err := checkPrefix(reply[:i], false); !errors.Is(err, responders) {
			t.Errorf("%d bytes of a Reply for a Request: %v", i, err)
		}
	}
}

// Each field is checked as soon as it has arrived (RFC 5044 §7.1.1 [R5044-114 R5044-117], RFC 5044
// §7.1.2 [R5044-140], RFC 5044 §C.1 [R5044-176]).
func TestPrefixFields(t *testing.T) {
	conformance.Proves(t, "R5044-112", "R5044-114", "R5044-117", "R5044-140", "R5044-154", "R5044-176", "R5044-178", "R6581-007",
		"R6581-012")
	for _, c := range []struct {
		tail string
		want error
	}{
		{"40", nil}, {"40 00", errRev}, {"40 03", errRev}, {"40 ff", errRev}, {"40 01", nil},
		{"40 01 02", nil}, {"40 01 03", ErrPDLength}, {"40 01 ff", ErrPDLength},
		{"40 01 0200", nil}, {"40 01 0201", ErrPDLength}, {"40 01 ffff", ErrPDLength},
		{"50 02 0003", ErrEnhanced}, {"50 02 0000", ErrEnhanced}, {"50 02 0004", nil},
		{"50 01 0003", nil}, // Rev 1: S is a reserved bit
		{"5f 02 0004", nil}, // RFC 6581 §6 [R6581-007]
		{"4f 01 0000", nil}, // RFC 5044 §7.1.1 [R5044-112]
	} {
		for _, key := range []string{hexRequest, hexReply} {
			err := checkPrefix(must.Hex(t, key+c.tail), key == hexReply)
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.tail, err, c.want)
			}
			if code, ok := term.CodeOf(err); ok && code != term.MPAStartup {
				t.Errorf("%s: code %v", c.tail, code)
			}
		}
	}
}

// In Rev 1 the S bit is reserved: all private data is the ULP's.
func TestFrameRev1IgnoresS(t *testing.T) {
	conformance.Proves(t, "R6581-005")
	f, n, err := ParseFrame(must.Hex(t, hexRequest+"50 01 0004 01020304"), false)
	want := Frame{Rev: Rev1, CRC: true, PrivateData: []byte{1, 2, 3, 4}}
	if err != nil || n != 24 || !sameFrame(f, want) {
		t.Errorf("%+v, %d bytes, %v, want %+v, 24 bytes", f, n, err, want)
	}
}

// RFC 6581 §9.2 [R6581-051 R6581-052]: without the A bit the RTR flags are not sent, and are
// ignored when received.
func TestEnhancedClientServer(t *testing.T) {
	conformance.Proves(t, "R6581-049", "R6581-051", "R6581-052")
	e := Enhanced{RTRSend: true, RTRWrite: true, RTRRead: true, IRD: 3, ORD: 5}
	if got := e.append(nil); !bytes.Equal(got, []byte{0, 3, 0, 5}) {
		t.Errorf("sent %x", got)
	}
	if got := parseEnhanced([]byte{0x40, 3, 0xc0, 5}); got != (Enhanced{IRD: 3, ORD: 5}) {
		t.Errorf("parsed %+v", got)
	}
}

// RFC 6581 §9 [R6581-018]: values beyond 14 bits never run into the flags.
func TestEnhancedRange(t *testing.T) {
	conformance.Proves(t, "R6581-018")
	e := Enhanced{IRD: 0x4000, ORD: 0xffff}
	if got := e.append(nil); !bytes.Equal(got, []byte{0x3f, 0xff, 0x3f, 0xff}) {
		t.Errorf("sent %x", got)
	}
}

// RFC 5044 §7.1.1 [R5044-118], RFC 6581 §9 [R6581-019]: too long private data never leaves.
func TestFramePrivateDataLimit(t *testing.T) {
	conformance.Proves(t, "R5044-118", "R6581-019")
	for _, c := range []struct {
		n        int
		enhanced bool
		fits     bool
	}{{512, false, true}, {513, false, false}, {508, true, true}, {509, true, false}} {
		f := Frame{Rev: 2, HasEnhanced: c.enhanced, PrivateData: make([]byte, c.n)}
		fits := func() (ok bool) {
			defer func() { ok = recover() == nil }()
			return len(AppendFrame(nil, &f)) == FrameMax
		}()
		if fits != c.fits {
			t.Errorf("%d bytes, enhanced %v: fits is %v", c.n, c.enhanced, fits)
		}
	}
}

func genFrame(t *rapid.T) Frame {
	f := Frame{
		Reply:   rapid.Bool().Draw(t, "reply"),
		Markers: rapid.Bool().Draw(t, "M"),
		CRC:     rapid.Bool().Draw(t, "C"),
		Rev:     rapid.Uint8Range(1, 2).Draw(t, "rev"),
	}
	f.Reject = f.Reply && rapid.Bool().Draw(t, "R")
	room := PrivateDataMax
	if f.HasEnhanced = f.Rev == Rev2 && rapid.Bool().Draw(t, "S"); f.HasEnhanced {
		room -= EnhancedLen
		f.Enhanced.IRD = rapid.Uint16Max(NotNegotiated).Draw(t, "IRD")
		f.Enhanced.ORD = rapid.Uint16Max(NotNegotiated).Draw(t, "ORD")
		if f.Enhanced.PeerToPeer = rapid.Bool().Draw(t, "A"); f.Enhanced.PeerToPeer {
			f.Enhanced.RTRSend = rapid.Bool().Draw(t, "B")
			f.Enhanced.RTRWrite = rapid.Bool().Draw(t, "C'")
			f.Enhanced.RTRRead = rapid.Bool().Draw(t, "D")
		}
	}
	f.PrivateData = rapid.SliceOfN(rapid.Byte(), 0, room).Draw(t, "private data")
	return f
}

func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genFrame(t)
		wire := AppendFrame(nil, &want)
		got, n, err := ParseFrame(wire, want.Reply)
		if err != nil || n != len(wire) || !sameFrame(got, want) {
			t.Fatalf("%+v came back as %+v, %d bytes, %v", want, got, n, err)
		}
	})
}
