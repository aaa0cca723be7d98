// The second opinion: tshark's parse of a capture.

package wire

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Tshark reports whether tshark is installed.
func Tshark() bool {
	_, err := exec.LookPath("tshark")
	return err == nil
}

var tsharkFields = []string{"frame.number", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message", "iwarp_mpa.ulpdulength", "nfs.procedure_v3", "nfs.count3"}

const severityWarning = 0x600000

// tsharkFrames is the number of frames that tshark parses. This number takes seconds, and minutes
// for some captures.
const tsharkFrames = 20_000

// known are remarks caused by limits of tshark 4.0: see excused for the first remark. tshark also
// considers revision 2 of MPA an error.
var known = []string{"Malformed Packet (Exception occurred)", "Res field is NOT set to zero", "Rev field is NOT set to one"}

func askTshark(t *testing.T, path string, r *Report) {
	t.Helper()
	// tshark must identify MPA by content, not by port: a test's port is arbitrary and may belong
	// to another protocol.
	args := []string{"-r", path, "-c", strconv.Itoa(tsharkFrames), "-o", "tcp.try_heuristic_first:TRUE", "-o", "tcp.desegment_tcp_streams:TRUE", "-o", "iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:TRUE",
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
		checkRemarks(t, f)
	}
	if fpdus != r.tsharkFPDUs {
		t.Errorf("tshark sees %d FPDUs, we see %d", fpdus, r.tsharkFPDUs)
	}
}

// checkRemarks fails for tshark's errors, except its known limits.
func checkRemarks(t *testing.T, f []string) {
	t.Helper()
	frame, malformed, severities, messages := f[0], f[1], strings.Split(f[2], ";"), strings.Split(f[3], ";")
	for _, m := range strings.Split(malformed, ";") {
		if m != "" && m != "_ws.malformed" && !(m == "[Malformed Packet: NFS]" && excused(f[5], f[6])) {
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

// excused reports whether NFS appears malformed because of tshark's limits. tshark does not join
// the data from the RDMA Writes of a READ reply. The pad of a Read chunk is never sent (RFC 8166
// section 3.4.5.2). tshark computes it only from the length of the Read Response's last segment,
// which is wrong if earlier segments are not multiples of four.
func excused(procedures, counts string) bool {
	for _, p := range strings.Split(procedures, ";") {
		if p == "6" {
			return true
		}
		if p == "7" {
			for _, c := range strings.Split(counts, ";") {
				if n, err := strconv.Atoi(c); err == nil && n%4 != 0 {
					return true
				}
			}
		}
	}
	return false
}
