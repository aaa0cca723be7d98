// The verdict on a capture as a test sees it.

package wire

import "testing"

// Want is what a test knows about a capture.
type Want struct {
	CRC        bool // whether every connection must have CRC on
	ServerOurs bool // then the server's pads must be zero
	ClientOurs bool // then the client's pads must be zero
	Terminates int  // how many are expected
	Frames     int  // tshark is asked about so many, from the beginning; 0: about all
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
	if unanswered := r.Unanswered + r.ignored(want); r.Terminates != want.Terminates || unanswered > 0 && !want.Cut {
		t.Errorf("%d Terminates, %d calls without a reply", r.Terminates, unanswered)
	}
	if r.Misread > 0 {
		t.Logf("siw ended %d connections for a CRC that was right", r.Misread)
	}
	if Tshark() && !want.Cut && r.Misread == 0 {
		askTshark(t, path, r, want.Frames)
	}
	t.Logf("%d connections, %d FPDUs, %d calls, %d RDMA Writes, %d RDMA Reads", r.Connections, r.FPDUs, r.Calls, r.Writes, r.Reads)
	return r
}

// ignored is the calls that a server of ours should have answered: only siw may lose a
// connection's first wake-up.
func (r *Report) ignored(want Want) int {
	if want.ServerOurs {
		return r.Ignored
	}
	return 0
}
