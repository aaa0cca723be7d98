// Validates a capture for a test.

package wire

import (
	"testing"
	"time"
)

// Want has a test's expectations about a capture.
type Want struct {
	CRC        bool // every connection must have CRC on
	ServerOurs bool // the server's pads must be zero
	ClientOurs bool // the client's pads must be zero
	Terminates int  // maximum number
	Cut        bool // connections were cut, so calls may lack a reply and messages their end
}

// Check validates a capture with our reader, and with tshark if it is installed. It fails the test
// for each violation and returns the report.
func Check(t *testing.T, path string, want Want) *Report {
	t.Helper()
	r, err := Validate(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Calls == 0 {
		t.Error("the capture holds no call")
	}
	if want.CRC && r.CRCOn != r.Connections {
		t.Errorf("%d of %d connections have CRC on", r.CRCOn, r.Connections)
	}
	if want.ClientOurs && r.DirtyPads[0] > 0 || want.ServerOurs && r.DirtyPads[1] > 0 {
		t.Errorf("FPDUs whose pad is not zero: %d of the client, %d of the server", r.DirtyPads[0], r.DirtyPads[1])
	}
	if len(r.Terminates) > want.Terminates {
		t.Errorf("Terminates: %q, at most %d are expected", r.Terminates, want.Terminates)
	}
	if n := r.Unanswered + r.ignored(want); !want.Cut && n+r.Torn+r.Refused > 0 {
		t.Errorf("%d calls without a reply, %d directions that end inside a message, %d MPA Requests without a Reply", n, r.Torn, r.Refused)
	}
	if r.Misread > 0 {
		t.Logf("siw ended %d connections for a CRC that was right", r.Misread)
	}
	asked := time.Now()
	if Tshark() {
		askTshark(t, path, r)
	}
	t.Logf("%d connections, %d FPDUs (%d for tshark, in %v), %d calls, %d RDMA Writes, %d RDMA Reads, Terminates %q, %d and %d calls without a reply",
		r.Connections, r.FPDUs, r.tsharkFPDUs, time.Since(asked).Round(time.Millisecond), r.Calls, r.Writes, r.Reads, r.Terminates, r.Unanswered, r.Ignored)
	return r
}

// ignored returns the number of calls that our server should have answered. Only siw may lose a
// connection's first wake-up.
func (r *Report) ignored(want Want) int {
	if want.ServerOurs {
		return r.Ignored
	}
	return 0
}
