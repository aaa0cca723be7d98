// The table of codes, their descriptions, and the two error types.

package term

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// Every row of the RFCs' tables, by number.
var rows = []struct {
	code                Code
	layer, etype, value uint8
}{
	{RDMAPLocal, 0, 0, 0},
	{RDMAPInvalidSTag, 0, 1, 0}, {RDMAPBounds, 0, 1, 1}, {RDMAPAccess, 0, 1, 2}, {RDMAPSTagNotOfStream, 0, 1, 3},
	{RDMAPWrap, 0, 1, 4}, {RDMAPForeignInvalidate, 0, 1, 9}, {RDMAPProtection, 0, 1, 0xff},
	{RDMAPVersion, 0, 2, 5}, {RDMAPOpcode, 0, 2, 6}, {RDMAPStream, 0, 2, 7}, {RDMAPGlobal, 0, 2, 8},
	{RDMAPCannotInvalidate, 0, 2, 9}, {RDMAPOperation, 0, 2, 0xff},
	{DDPLocal, 1, 0, 0},
	{DDPInvalidSTag, 1, 1, 0}, {DDPBounds, 1, 1, 1}, {DDPSTagNotOfStream, 1, 1, 2}, {DDPWrap, 1, 1, 3}, {DDPTaggedVersion, 1, 1, 4},
	{DDPInvalidQN, 1, 2, 1}, {DDPNoBuffer, 1, 2, 2}, {DDPMSNRange, 1, 2, 3}, {DDPInvalidMO, 1, 2, 4}, {DDPTooLong, 1, 2, 5},
	{DDPUntaggedVersion, 1, 2, 6},
	{MPAClosed, 2, 0, 1}, {MPACRC, 2, 0, 2}, {MPAMarker, 2, 0, 3}, {MPAStartup, 2, 0, 4},
	{MPALocal, 2, 0, 5}, {MPAIRD, 2, 0, 6}, {MPARTR, 2, 0, 7},
}

// TestCodes: each code has the RFC's layer, type and value (RFC 5040 §4.8 [R5040-056 R5040-063
// R5040-064 R5040-065 R5040-066 R5040-067 R5040-068 R5040-069 R5040-070 R5040-071 R5040-072
// R5040-073 R5040-074 R5040-075 R5040-076 R5040-077 R5040-078], RFC 6581 §8 [R6581-014 R6581-015
// R6581-016]).
func TestCodes(t *testing.T) {
	conformance.Proves(t, "R5040-056", "R5040-063", "R5040-064", "R5040-065", "R5040-066", "R5040-067", "R5040-068", "R5040-069",
		"R5040-070", "R5040-071", "R5040-072", "R5040-073", "R5040-074", "R5040-075", "R5040-076", "R5040-077", "R5040-078",
		"R5041-111", "R5041-112", "R5041-113", "R5041-114", "R5041-115", "R5041-116", "R5041-117", "R5041-118", "R5041-119",
		"R5041-120", "R5041-121", "R5041-122", "R5041-123", "R5041-124", "R6581-014", "R6581-015", "R6581-016")
	for _, r := range rows {
		if r.code != (Code{r.layer, r.etype, r.value}) {
			t.Errorf("%v, want %x/%x/%02x", r.code, r.layer, r.etype, r.value)
		}
		if !r.code.Known() || strings.HasPrefix(r.code.String(), "unknown") {
			t.Errorf("%v has no name", r.code)
		}
	}
	if len(names) != len(rows) {
		t.Errorf("%d codes have words, %d are in the RFCs", len(names), len(rows))
	}
}

func TestCodeString(t *testing.T) {
	conformance.Proves(t, "R5040-063")
	for c, want := range map[Code]string{
		DDPInvalidSTag: "DDP tagged buffer: invalid STag (1/1/00)",
		RDMAPOperation: "RDMAP remote operation: unspecified (0/2/ff)",
		{0, 0, 0x77}:   "RDMAP local catastrophic error (0/0/77)",
		{9, 8, 0x07}:   "unknown Terminate code (9/8/07)",
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !(Code{0, 0, 0x77}).Known() || (Code{9, 8, 7}).Known() {
		t.Error("Known is wrong")
	}
}

func TestErrors(t *testing.T) {
	ours := &Error{Code: MPACRC, detail: "in the third FPDU", Err: io.ErrUnexpectedEOF}
	wrapped := fmt.Errorf("reading: %w", ours)
	if got := ours.Error(); got != "MPA: CRC error (2/0/02): in the third FPDU: unexpected EOF" {
		t.Errorf("Error: %q", got)
	}
	for _, target := range []error{ours, io.ErrUnexpectedEOF, &Error{Code: MPACRC}, New(MPACRC, "in the third FPDU")} {
		if !errors.Is(wrapped, target) {
			t.Errorf("is not %v", target)
		}
	}
	for _, target := range []error{&Error{Code: MPAMarker}, New(MPACRC, "elsewhere"), &PeerError{Code: MPACRC}, io.EOF} {
		if errors.Is(wrapped, target) {
			t.Errorf("is %v", target)
		}
	}
	if code, ok := CodeOf(wrapped); code != MPACRC || !ok {
		t.Errorf("code %v, %v", code, ok)
	}
	theirs := &PeerError{Code: MPACRC, SegLen: 22}
	if got := theirs.Error(); got != "the peer terminated the stream: MPA: CRC error (2/0/02)" {
		t.Errorf("Error: %q", got)
	}
	for target, want := range map[error]bool{&PeerError{Code: MPACRC}: true, &PeerError{}: false, ours: false} {
		if got := errors.Is(theirs, target); got != want {
			t.Errorf("a PeerError is %v: %v, want %v", target, got, want)
		}
	}
	if _, ok := CodeOf(theirs); ok {
		t.Error("the peer's error makes us send a Terminate")
	}
}
