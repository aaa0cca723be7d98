// The second opinion: what tshark makes of a capture.

package wire

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Tshark says whether tshark is there to be asked.
func Tshark() bool {
	_, err := exec.LookPath("tshark")
	return err == nil
}

var tsharkFields = []string{"frame.number", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message", "iwarp_mpa.ulpdulength", "nfs.procedure_v3", "rpc.msgtyp"}

const severityWarning = 0x600000

// known are remarks of tshark 4.0 that are limits of its own: it does not join the data
// that a READ reply's RDMA Writes have brought, so the reply looks too short to it, and
// it takes revision 2 of MPA for a mistake.
var known = []string{"Malformed Packet (Exception occurred)", "Res field is NOT set to zero", "Rev field is NOT set to one"}

func askTshark(t *testing.T, path string, r *Report) {
	t.Helper()
	args := []string{"-r", path, "-o", "tcp.desegment_tcp_streams:TRUE", "-o", "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:TRUE",
		"-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=;"}
	for _, f := range tsharkFields {
		args = append(args, "-e", f)
	}
	out, err := exec.Command("tshark", args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	fpdus := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != len(tsharkFields) {
			t.Fatalf("tshark says %q", line)
		}
		if f[4] != "" {
			fpdus += strings.Count(f[4], ";") + 1
		}
		judgeRemarks(t, f)
	}
	if fpdus != r.FPDUs {
		t.Errorf("tshark sees %d FPDUs, we see %d", fpdus, r.FPDUs)
	}
}

// judgeRemarks fails for what tshark finds wrong and is not known to be its own limit.
func judgeRemarks(t *testing.T, f []string) {
	t.Helper()
	frame, malformed, severities, messages, procedures := f[0], f[1], strings.Split(f[2], ";"), strings.Split(f[3], ";"), f[5]
	// A READ reply comes as a frame with procedure 6; a frame may hold other messages too.
	read := strings.Contains(";"+procedures+";", ";6;")
	for _, m := range strings.Split(malformed, ";") {
		if m != "" && m != "_ws.malformed" && !(read && m == "[Malformed Packet: NFS]") {
			t.Errorf("tshark, frame %s: %s", frame, m)
		}
	}
	for i, m := range messages {
		severity := int64(severityWarning)
		if i < len(severities) {
			severity, _ = strconv.ParseInt(severities[i], 10, 64)
		}
		if m != "" && severity >= severityWarning && !slices.Contains(known, m) {
			t.Errorf("tshark, frame %s: %s", frame, m)
		}
	}
}
