// Start-up frames: the Request and the Reply that open an MPA connection.

// Package mpa implements the framing between DDP and TCP: start-up frames, FPDUs, CRCs and markers
// (RFC 5044, RFC 6581). It turns bytes to values and back; its caller has the sockets, clocks and
// goroutines.
package mpa

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// Start-up frame (RFC 5044 §7.1.1, RFC 6581 §6):
//
//	off  size  field
//	  0    16  Key: "MPA ID Req Frame" or "MPA ID Rep Frame"
//	 16     1  M 0x80, C 0x40, R 0x20, S 0x10, reserved 0x0f (sent as zero, ignored)
//	 17     1  Rev
//	 18     2  PD_Length, 0..512
//	 20     .  private data; with S (Rev 2 on) its first 4 bytes are the enhanced data
const (
	HeaderLen           = 20
	PrivateDataMax      = 512
	FrameMax            = HeaderLen + PrivateDataMax
	keyLen              = 16
	flagM          byte = 0x80
	flagC          byte = 0x40
	flagR          byte = 0x20
	flagS          byte = 0x10

	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"
)

// Supported revisions.
const (
	Rev1 uint8 = 1 // RFC 5044
	Rev2 uint8 = 2 // RFC 6581
)

// Errors in a start-up frame. After any of them the TCP connection is closed without an answer (RFC
// 5044 §7.1.2 rule 5, §8 code 4).
var (
	ErrKey        = term.New(term.MPAStartup, "wrong key: the peer does not speak MPA")
	ErrInitiators = term.New(term.MPAStartup, "initiator/initiator: a Request came where the Reply was due")
	errResponders = term.New(term.MPAStartup, "responder/responder: a Reply came where the Request was due")
	errRev        = term.New(term.MPAStartup, "MPA revision is neither 1 nor 2")
	ErrPDLength   = term.New(term.MPAStartup, "PD_Length above 512")
	ErrEnhanced   = term.New(term.MPAStartup, "S is set but PD_Length leaves no room for the enhanced data")
	ErrEarly      = term.New(term.MPAStartup, "bytes after the Request, before any Reply")
	ErrTruncated  = term.New(term.MPAStartup, "connection ended inside the frame")
)

// A Frame is a start-up frame.
type Frame struct {
	Reply   bool // a Reply, not a Request
	Markers bool // M: the sender wants to receive markers
	CRC     bool // C: the sender wants CRCs in both directions
	Reject  bool // R: the responder refuses; unused in a Request
	Rev     uint8

	// HasEnhanced is S, valid from Rev 2 on (RFC 6581 §6). PD_Length counts the enhanced data, but
	// PrivateData never includes it.
	HasEnhanced bool
	Enhanced    Enhanced

	// PrivateData is the ULP's part: up to 512 bytes, 508 beside enhanced data. In a parsed Frame
	// it aliases the input.
	PrivateData []byte
}

// AppendFrame appends f. Too long private data is the caller's bug and panics: the API that took
// it from the ULP must check the limit.
func AppendFrame(b []byte, f *Frame) []byte {
	key := requestKey
	if f.Reply {
		key = replyKey
	}
	var flags byte
	if f.Markers {
		flags |= flagM
	}
	if f.CRC {
		flags |= flagC
	}
	if f.Reject {
		flags |= flagR
	}
	n := len(f.PrivateData)
	if f.HasEnhanced {
		flags |= flagS
		n += EnhancedLen
	}
	if n > PrivateDataMax {
		panic("mpa: private data too long for a start-up frame")
	}
	b = append(b, key...)
	b = append(b, flags, f.Rev, byte(n>>8), byte(n))
	if f.HasEnhanced {
		b = f.Enhanced.append(b)
	}
	return append(b, f.PrivateData...)
}

// checkPrefix checks a frame header's received part, byte by byte, so that other protocols'
// traffic fails at its first wrong byte (RFC 5044 §7.1.3). It reads at most HeaderLen bytes; nil:
// no error so far.
func checkPrefix(b []byte, reply bool) error {
	if err := checkKey(b, reply); err != nil {
		return err
	}
	if len(b) < 18 {
		return nil
	}
	if rev := b[17]; rev != Rev1 && rev != Rev2 { // RFC 5044 §7.1.1 [R5044-114]
		return errRev
	}
	if len(b) < HeaderLen {
		if len(b) > 18 && b[18] > PrivateDataMax>>8 {
			return ErrPDLength
		}
		return nil
	}
	n := binary.BigEndian.Uint16(b[18:])
	if n > PrivateDataMax { // RFC 5044 §7.1.1 [R5044-117], RFC 5044 §7.1.2 [R5044-140]
		return ErrPDLength
	}
	if enhanced(b) && n < EnhancedLen { // RFC 6581 §6 [R6581-012]
		return ErrEnhanced
	}
	return nil
}

// checkKey compares the key's received part, and distinguishes the other key from noise (RFC
// 5044 §7.1.2 rule 8).
func checkKey(b []byte, reply bool) error {
	b = b[:min(len(b), keyLen)]
	want, other, swapped := requestKey, replyKey, errResponders
	if reply {
		want, other, swapped = replyKey, requestKey, ErrInitiators
	}
	switch string(b) {
	case want[:len(b)]:
		return nil
	case other[:len(b)]:
		return swapped
	}
	return ErrKey
}

// enhanced reports whether a complete header announces enhanced data. In Rev 1 the S bit is
// reserved and ignored.
func enhanced(b []byte) bool { return b[17] >= Rev2 && b[16]&flagS != 0 }

// ParseFrame parses one start-up frame from b's front and returns its length n. n == 0 with no
// error: more bytes are needed. The caller checks bytes beyond n: FPDUs after a Reply, ErrEarly
// after a Request.
func ParseFrame(b []byte, reply bool) (f Frame, n int, err error) {
	if err := checkPrefix(b, reply); err != nil {
		return Frame{}, 0, err
	}
	if len(b) < HeaderLen {
		return Frame{}, 0, nil
	}
	n = HeaderLen + int(binary.BigEndian.Uint16(b[18:]))
	if len(b) < n {
		return Frame{}, 0, nil
	}
	f = Frame{
		Reply:       reply,
		Markers:     b[16]&flagM != 0,
		CRC:         b[16]&flagC != 0,
		Reject:      reply && b[16]&flagR != 0, // RFC 5044 §7.1.1 [R5044-109]
		Rev:         b[17],
		HasEnhanced: enhanced(b),
		PrivateData: b[HeaderLen:n:n],
	}
	if f.HasEnhanced {
		f.Enhanced = parseEnhanced(f.PrivateData)
		f.PrivateData = f.PrivateData[EnhancedLen:]
	}
	return f, n, nil
}
