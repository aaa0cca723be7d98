// The verdict on a capture as a test sees it.

package wire

import "testing"

// Want is what a test knows about a capture.
type Want struct {
	CRC        bool // whether every connection must have CRC on
	ServerOurs bool // then the server's pads must be zero
	ClientOurs bool // then the client's pads must be zero
	Terminates int  // how many are expected
	Cut        bool // connections were cut: calls may lack a reply, and tshark is not asked
}

// Check judges a capture, by our reader and by tshark when it is there, and fails the
// test for each rule that is broken. It returns what was seen.
func Check(t *testing.T, path string, want Want) *Report {
	t.Helper()
	r, err := Judge(path)
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
	if r.Terminates != want.Terminates || r.Unanswered > 0 && !want.Cut {
		t.Errorf("%d Terminates, %d calls without a reply", r.Terminates, r.Unanswered)
	}
	if Tshark() && !want.Cut {
		askTshark(t, path, r)
	}
	t.Logf("%d connections, %d FPDUs, %d calls, %d RDMA Writes, %d RDMA Reads", r.Connections, r.FPDUs, r.Calls, r.Writes, r.Reads)
	return r
}
