// Private data: the eight bytes, their positions, and the agreement of both sides.

package rpcrdma

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestPrivateDataGolden(t *testing.T) { // RFC 8797 §4 [R8797-003 R8797-004 R8797-005 R8797-006 R8797-007]
	conformance.Proves(t, "R8797-003", "R8797-004", "R8797-005", "R8797-006", "R8797-007", "R8797-020", "R8797-022")
	ours := PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}
	want := must.Hex(t, "f6ab0e18 01010303")
	if got := AppendPrivateData(nil, ours); !bytes.Equal(got, want) {
		t.Errorf("%x", got)
	}
	for _, prefix := range []string{"", "00", "f6ab0e", "f6ab0ef6ab", "0080008000"} { // RFC 8797 §5.2 [R8797-020]
		p, ok := ParsePrivateData(append(must.Hex(t, prefix), append(want, 0xff)...))
		if !ok || p != ours {
			t.Errorf("behind %q: %+v %v", prefix, p, ok)
		}
	}
	for n := range want { // RFC 8797 §5.2 [R8797-022]
		if p, ok := ParsePrivateData(want[:n:n]); ok || p != defaultPrivateData {
			t.Errorf("%d bytes: %+v", n, p)
		}
	}
}

func TestPrivateDataVariants(t *testing.T) {
	conformance.Proves(t, "R8797-008", "R8797-014", "R8797-015", "R8797-019", "R8797-021")
	for _, c := range []struct {
		wire string
		ok   bool
		want PrivateData
	}{
		{"f6ab0e18 01ff0000", true, PrivateData{true, 1024, 1024}},    // RFC 8797 §4 [R8797-008]
		{"f6ab0e18 01fe003f", true, PrivateData{false, 1024, 65536}},  // RFC 8797 §4.2 [R8797-014]
		{"f6ab0e18 0100ff03", true, PrivateData{false, 262144, 4096}}, // RFC 8797 §4.2 [R8797-015]
		{"f6ab0e18 02010303", false, defaultPrivateData},              // RFC 8797 §5.1 [R8797-019]
		{"180eabf6 01010303", false, defaultPrivateData},              // RFC 8797 §5.2 [R8797-021]
		{"f6ab0e18 02f6ab0e 18010103 03", false, defaultPrivateData},  // the first identifier counts
	} {
		p, ok := ParsePrivateData(must.Hex(t, c.wire))
		if ok != c.ok || p != c.want {
			t.Errorf("%s: %+v %v", c.wire, p, ok)
		}
	}
}

// TestAgree: each direction has the smaller of both sizes, and remote invalidation needs both sides
// (RFC 8797 §4.1 [R8797-011 R8797-013], RFC 8797 §4.2 [R8797-016 R8797-017 R8797-018], RFC 8166
// §3.3.2 [R8166-033]).
func TestAgree(t *testing.T) {
	conformance.Proves(t, "R8166-033", "R8166-038", "R8797-009", "R8797-011", "R8797-013", "R8797-016", "R8797-017", "R8797-018")
	a := PrivateData{RemoteInvalidate: true, SendSize: 65536, RecvSize: 4096}
	b := PrivateData{RemoteInvalidate: true, SendSize: 1024, RecvSize: 8192}
	if got, want := agree(a, b), (Thresholds{8192, 1024, true}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := agree(b, a), (Thresholds{1024, 8192, true}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := agree(a, defaultPrivateData), (Thresholds{1024, 1024, false}); got != want {
		t.Errorf("%+v", got)
	}
}
