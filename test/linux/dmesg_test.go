// The guest kernel's messages about RPC and RDMA while a test runs.

package linux

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
)

// concerns picks the lines of the kernel's log that are about us.
var concerns = regexp.MustCompile(`(?i)rpc|rdma|siw|nfs|\bBUG:|WARNING:|Oops|blocked for more than`)

// quiet fails when the kernel has logged a message about us since the last call that expected does
// not match. A trailer that siw misread is never our fault, nor is a result of the connection's
// end.
func quiet(t *testing.T, g *guest.Guest, expected ...string) {
	t.Helper()
	said := run(t, g, "dmesg -c")
	lines := strings.Split(said, "\n")
	if slices.ContainsFunc(lines, misreadTrailer) {
		expected = append(slices.Clone(expected), reconnects...)
		lines = strings.Split(comesOfMisreading(t, said), "\n")
	}
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if !concerns.MatchString(line) {
			continue
		}
		ok := misreadTrailer(line)
		for _, e := range expected {
			ok = ok || regexp.MustCompile(e).MatchString(line)
		}
		if ok {
			t.Logf("the guest's kernel says, as expected: %s", line)
		} else {
			t.Errorf("the guest's kernel says: %s", line)
		}
	}
}

// comesOfMisreading returns the kernel's log without the effects that a trailer misread by siw has
// on a server that reads from us.
func comesOfMisreading(t *testing.T, said string) string {
	said = lostMRs.ReplaceAllStringFunc(said, func(warning string) string {
		t.Logf("the guest's kernel says, as expected:\n%s", warning)
		return ""
	})
	return blockedTask.ReplaceAllStringFunc(said, func(report string) string {
		if !strings.Contains(report, " svc_rdma_process_read_list+") {
			return report
		}
		t.Logf("the guest's kernel says, as expected:\n%s", report)
		return ""
	})
}

// blockedTask is the kernel's report about a knfsd thread that waits for too long. On 6.1 it is no
// fault of ours when the thread waits for an RDMA Read: siw has forgotten that one; see misread.
var blockedTask = regexp.MustCompile(`(?s)[^\n]*INFO: task nfsd:\d+ blocked for more than .*?</TASK>`)

// lostMRs is the trace in 6.12's svcrdma when a connection ends while it reads from the client:
// from the warning to its end.
var lostMRs = regexp.MustCompile(`(?s)[^\n]*WARNING: [^\n]* ib_destroy_qp_user\+.*?---\[ end trace [^\n]*`)

var crcError = regexp.MustCompile(`siw: crc error\. in: ([0-9a-f]{8}), own ([0-9a-f]{8}),`)

// misreadTrailer distinguishes siw's own fault from an FPDU with a wrong CRC. When a trailer
// arrives in two pieces, siw stores the second, n bytes long, over the first. Its CRC then begins
// with the last n bytes of the right CRC, and the rest of the first piece follows unchanged. QEMU's
// user network cuts anywhere, so any test may see this.
func misreadTrailer(line string) bool {
	m := crcError.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	var in, own [4]byte // as on the wire
	for i, field := range []*[4]byte{&in, &own} {
		v, _ := strconv.ParseUint(m[i+1], 16, 32)
		binary.LittleEndian.PutUint32(field[:], uint32(v))
	}
	for n := 1; n < len(own); n++ {
		first := max(n, len(own)-n)
		if bytes.Equal(in[:n], own[len(own)-n:]) && bytes.Equal(in[n:first], own[n:first]) {
			return true
		}
	}
	return false
}

func TestMisreadTrailer(t *testing.T) {
	for line, want := range map[string]bool{
		// one byte over four
		"[   10.773332] siw: crc error. in: 2255f2ff, own ff55f289, op 2": true,
		"siw: crc error. in: 0a10d97b, own 7b10d9d4, op 2":                true,
		"siw: crc error. in: 99883344, own 33441122, op 0":                true, // two
		"siw: crc error. in: 99112233, own 11223344, op 0":                true, // three
		"siw: crc error. in: 11223345, own 11223344, op 0":                false,
		"siw: crc error. in: 44332211, own 11223344, op 0":                false,
		"siw: crc error. in: 22aaf2ff, own ff55f289, op 2":                false,
		"siw: something else":                                             false,
	} {
		if misreadTrailer(line) != want {
			t.Errorf("%s: %t", line, !want)
		}
	}
}

// TestComesOfMisreading: reports about blocked threads are dropped only for threads that wait for
// an RDMA Read.
func TestComesOfMisreading(t *testing.T) {
	report := func(where string) string {
		return "[  244.648703] INFO: task nfsd:145 blocked for more than 120 seconds.\n" +
			"[  244.650965]       Tainted: G           OE      6.1.0-56-amd64\n[  244.651]  <TASK>\n" +
			"[  244.652]  __wait_for_common+0x91/0x1e0\n[  244.653]  " + where + "+0x106/0x2e0 [rpcrdma]\n[  244.654]  </TASK>\n"
	}
	read, other := report("svc_rdma_process_read_list"), report("svc_rdma_sendto")
	if got := comesOfMisreading(t, "before\n"+read+other+read+"after"); got != "before\n\n"+other+"\nafter" {
		t.Errorf("left is %q", got)
	}
}
