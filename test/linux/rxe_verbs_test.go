// The test programs of Linux's RDMA stack against nfsrdma verbs: pingpongs, perftest, rping and
// udaddy, as client and as server.

package linux

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/linux/guest"
)

// A verbsRun is one test: how each side's command line begins, and its options.
type verbsRun struct {
	linux, ours string
	options     string // of ours, -n and -s first
	theirs      string // of Linux
}

// Sizes and counts avoid silent losses: the messages fit in the posted receives.
var verbsRuns = []verbsRun{
	{"ibv_rc_pingpong -d rxe0 -g 1", "pingpong -c rc", "-n 200 -s 4096", "-n 200 -s 4096"},
	{"ibv_uc_pingpong -d rxe0 -g 1", "pingpong -c uc", "-n 200 -s 4096", "-n 200 -s 4096"},
	{"ibv_ud_pingpong -d rxe0 -g 1", "pingpong -c ud", "-n 200 -s 1000", "-n 200 -s 1000"},
	{"ibv_rc_pingpong -d rxe0 -g 1", "pingpong -c rc", "-n 20 -s 100000 -m 256", "-n 20 -s 100000 -m 256"},
	{"ib_send_bw -d rxe0 -x 1 -F", "perf send_bw -c rc", "-n 200 -s 20000", "-n 200 -s 20000 -c RC"},
	{"ib_send_bw -d rxe0 -x 1 -F", "perf send_bw -c uc", "-n 60 -s 4096", "-n 60 -s 4096 -c UC"},
	{"ib_send_bw -d rxe0 -x 1 -F", "perf send_bw -c ud", "-n 100 -s 1024", "-n 100 -s 1024 -c UD"},
	{"ib_write_bw -d rxe0 -x 1 -F", "perf write_bw -c rc", "-n 200 -s 20000", "-n 200 -s 20000 -c RC"},
	{"ib_write_bw -d rxe0 -x 1 -F", "perf write_bw -c uc", "-n 60 -s 100", "-n 60 -s 100 -c UC"},
	{"ib_read_lat -d rxe0 -x 1 -F", "perf read_lat", "-n 100 -s 4000", "-n 100 -s 4000"},
	{"ib_send_bw -R -F", "perf send_bw -R", "-n 200 -s 20000", "-n 200 -s 20000"},
	{"ib_send_bw -R -F", "perf send_bw -R -c ud", "-n 100 -s 1024", "-n 100 -s 1024 -c UD"},
	{"ib_write_bw -R -F", "perf write_bw -R", "-n 200 -s 20000", "-n 200 -s 20000"},
	{"ib_read_lat -R -F", "perf read_lat -R", "-n 100 -s 4000", "-n 100 -s 4000"},
	{"rping -v", "rping", "-n 5 -s 1000", "-C 5 -S 1000"},
	{"udaddy", "udaddy", "-n 50 -s 1000", "-C 50 -S 1000"},
	{"ucmatose", "ucmatose", "-n 50 -s 1000", "-C 50 -S 1000"},
}

// TestRxeVerbs: Linux's test programs, which are the same on both kernels, speak with ours, in
// either role.
func TestRxeVerbs(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.12", "6.1"} {
		if series == "6.12" || full {
			t.Run(series, func(t *testing.T) {
				enter(t, series)
				rxeVerbs(t, rxeClient(t, series))
			})
		}
	}
}

// rxeVerbs runs the verbs' tests in a guest with an rxe device. No server of ours on this host
// communicates with that device.
func rxeVerbs(t *testing.T, g *guest.Guest) {
	c := captureDevice(t, g.Device)
	c.bare = true
	for _, r := range verbsRuns {
		name := strings.Join(append(strings.Fields(r.ours), strings.Fields(r.options)[3]), "-")
		t.Run(name+"/server", func(t *testing.T) { weServeVerbs(t, g, r) })
		t.Run(name+"/client", func(t *testing.T) { linuxServesVerbs(t, g, r) })
	}
	t.Run("mckey/sender", func(t *testing.T) { weSendToGroup(t, g) })
	t.Run("mckey/receiver", func(t *testing.T) { linuxSendsToGroup(t, g) })
	quiet(t, g)
	c.checkKinds(t, false, packet.UDSendOnly, packet.UDSendOnlyImm, packet.UCSendFirst, packet.UCWriteOnly, packet.RCSendMiddle, packet.RCWriteMiddle, packet.RCReadRequest)
}

// weServeVerbs makes our program wait, and Linux's program connect to it.
func weServeVerbs(t *testing.T, g *guest.Guest, r verbsRun) {
	out := weWait(t, g, r, "waiting for a client", r.command(g.Host), "--addr", g.Host)
	verbsReport(t, r, "server", out.Bytes())
}

// weWait starts our program with further arguments. Once the program reports that it waits, weWait
// runs a command in the guest. Both must succeed.
func weWait(t *testing.T, g *guest.Guest, r verbsRun, waiting, command string, last ...string) *bytes.Buffer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd, out, errs := verbsCommand(ctx, t, r, last...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatalf("StderrPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	line := make([]byte, 200)
	n, _ := pipe.Read(line)
	if !strings.HasPrefix(string(line[:n]), waiting) {
		t.Errorf("ours began with %q", line[:n])
	}
	said := run(t, g, "timeout 600 "+command+" 2>&1")
	_, _ = errs.ReadFrom(pipe)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("ours: %v\n%s\nLinux: %s", err, errs, said)
	}
	return out
}

// linuxServesVerbs makes Linux's program wait, and ours connect to it.
func linuxServesVerbs(t *testing.T, g *guest.Guest, r verbsRun) {
	out := linuxWaits(t, g, r, r.command(""), r.waits(), g.Network.Guest)
	verbsReport(t, r, "client", out.Bytes())
}

// linuxWaits starts a command in the guest. Once the command waits succeeds there, it runs our
// program with further arguments. Both must succeed.
func linuxWaits(t *testing.T, g *guest.Guest, r verbsRun, command, waits string, last ...string) *bytes.Buffer {
	t.Helper()
	run(t, g, fmt.Sprintf(`rm -f /tmp/verbs.*
(timeout 600 %s > /tmp/verbs.out 2>&1; echo $? > /tmp/verbs.rc) &
n=0; until %s; do sleep 0.2; n=$((n+1)); [ $n -lt 3000 ] || die "$(cat /tmp/verbs.out)"; done`, command, waits))
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd, out, errs := verbsCommand(ctx, t, r, last...)
	cmd.Stderr = errs
	err := cmd.Run()
	said := run(t, g, `n=0; until [ -s /tmp/verbs.rc ]; do sleep 0.2; n=$((n+1)); [ $n -lt 3000 ] || break; done; cat /tmp/verbs.out /tmp/verbs.rc`)
	if err != nil || !strings.HasSuffix(strings.TrimSpace("\n"+said), "\n0") {
		t.Fatalf("ours: %v\n%s\nLinux: %s", err, errs, said)
	}
	return out
}

// The group in mckey's test, and the address of Linux's device once an rxe queue pair has joined
// it.
const (
	mckeyGroup  = "239.1.2.3"
	mckeyJoined = "grep -q 3333ef010203 /proc/net/dev_mcast"
)

// weSendToGroup makes mckey join a group, and our program send to it. mckey ends when it has
// received all.
func weSendToGroup(t *testing.T, g *guest.Guest) {
	r := verbsRun{linux: "mckey", ours: "mckey", options: "-n 20 -s 500"}
	command := "mckey -b " + g.Network.Guest + " -m " + mckeyGroup + " -C 20 -S 500"
	out := linuxWaits(t, g, r, command, mckeyJoined, "--send", "--addr", g.Host, mckeyGroup)
	verbsReport(t, r, "sender", out.Bytes())
}

// linuxSendsToGroup makes our program join the group, and mckey send to it. mckey does not wait
// until its messages have been sent: it destroys the queue pair, and with it the messages that rxe
// has not reached. So it sends many, and our program takes one.
func linuxSendsToGroup(t *testing.T, g *guest.Guest) {
	r := verbsRun{linux: "mckey", ours: "mckey", options: "-n 1 -s 500"}
	out := weWait(t, g, r, "waiting for datagrams", "mckey -s -b "+g.Network.Guest+" -m "+mckeyGroup+" -C 1000 -S 500", "--addr", g.Host, mckeyGroup)
	verbsReport(t, r, "receiver", out.Bytes())
}

// command returns Linux's command line, of a client if a host is named.
func (r *verbsRun) command(host string) string {
	switch rping := strings.HasPrefix(r.linux, "rping"); {
	case r.byCM() && !rping && host != "":
		return r.linux + " -s " + host + " " + r.theirs
	case rping && host == "":
		return r.linux + " -s " + r.theirs
	case rping:
		return r.linux + " -c -a " + host + " " + r.theirs
	}
	return r.linux + " " + r.theirs + " " + host
}

// waits returns a command that succeeds when Linux's server waits for a client.
func (r *verbsRun) waits() string {
	if r.byCM() || strings.Contains(r.linux, " -R") {
		return "rdma resource show cm_id | grep -q 'state LISTEN'"
	}
	return "ss -tln | grep -q ':18515 '"
}

// byCM reports whether the ends meet through the connection manager.
func (r *verbsRun) byCM() bool {
	return r.ours == "rping" || r.ours == "udaddy" || r.ours == "ucmatose"
}

func verbsCommand(ctx context.Context, t *testing.T, r verbsRun, last ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	t.Helper()
	args := append([]string{"verbs"}, strings.Fields(r.ours)...)
	args = append(append(append(args, strings.Fields(r.options)...), "--json"), last...)
	cmd = exec.CommandContext(ctx, program(t, "cmd/nfsrdma"), args...)
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout = out
	return cmd, out, errs
}

// verbsReport checks that all messages were counted.
func verbsReport(t *testing.T, r verbsRun, role string, text []byte) {
	t.Helper()
	var report struct {
		Role       string  `json:"role"`
		Iterations int     `json:"iterations"`
		Messages   int     `json:"messages"`
		Seconds    float64 `json:"seconds"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	counted := report.Messages == report.Iterations || strings.HasPrefix(r.linux, "ibv_") || r.linux[:4] == "ib_r" && role == "server" || r.byCM() || r.ours == "mckey"
	if report.Role != role || report.Seconds <= 0 || !counted {
		t.Errorf("%s", text)
	}
}
