// UCX, another library with RDMA semantics, measured over TCP on the same machine.

package bench

import (
	"context"
	"fmt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A ucxFigure is one test of ucx_perftest.
type ucxFigure struct {
	Test  string      `json:"test"`                   // its name in ucx_perftest
	Size  int         `json:"bytes"`                  // of a message
	MiBs  float64     `json:"mib_s,omitempty"`        // throughput
	AvgUs text.Micros `json:"mean_seconds,omitempty"` // one way
}

// ucxTests has the counterparts of our Send and RDMA Write. UCX's put over TCP stalls at times, so
// its results vary with few messages.
var ucxTests = []ucxFigure{
	{Test: "tag_bw", Size: 1 << 20},
	{Test: "ucp_put_bw", Size: 1 << 20},
	{Test: "tag_lat", Size: verbsMessage},
	{Test: "ucp_put_lat", Size: verbsMessage},
}

const (
	ucxCommand  = "ucx_perftest"
	ucxPatience = 60 * time.Second // one test's limit
	ucxLeast    = 200              // one test's least messages
	ucxMost     = 1_000_000
)

// measureUCX runs Debian's ucx-utils over TCP on loopback, for about d per test. It returns no
// figures if ucx-utils is not installed.
func measureUCX(ctx context.Context, d time.Duration) (out []*ucxFigure, err error) {
	path, err := exec.LookPath(ucxCommand)
	if err != nil {
		return nil, nil
	}
	for _, t := range ucxTests {
		// ucx_perftest takes a count and no duration, so time a few messages first.
		err := t.measure(ctx, path, ucxLeast)
		if err == nil {
			n := d.Seconds() / (float64(t.AvgUs) / 1e6)
			err = t.measure(ctx, path, int(min(max(n, ucxLeast), ucxMost)))
		}
		if err != nil {
			return out, fmt.Errorf("%s -t %s: %w", ucxCommand, t.Test, err)
		}
		if strings.HasSuffix(t.Test, "_lat") {
			t.MiBs = 0
		} else {
			t.AvgUs = 0
		}
		out = append(out, &t)
	}
	return out, nil
}

// measure runs one test with n messages in two processes, and returns after both have ended.
func (f *ucxFigure) measure(ctx context.Context, path string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, ucxPatience)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return err
	}
	server := ucxProcess(ctx, path, "-p", port)
	if err := server.Start(); err != nil {
		return err
	}
	defer func() { cancel(); _ = server.Wait() }()
	for {
		client := ucxProcess(ctx, path, "127.0.0.1", "-p", port, "-t", f.Test, "-s", strconv.Itoa(f.Size),
			"-n", strconv.Itoa(n), "-w", "20", "-O", strconv.Itoa(verbsDepth), "-f", "-v")
		said, err := client.CombinedOutput()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			return f.parse(string(said))
		case !strings.Contains(string(said), "Connection refused"):
			return fmt.Errorf("%w: %s", err, lastLine(string(said)))
		}
		select { // the server is not ready yet
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func ucxProcess(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "UCX_TLS=tcp", "UCX_NET_DEVICES=lo", "UCX_WARN_UNUSED_ENV_VARS=n")
	cmd.WaitDelay = time.Second // for descendants that hold its pipe
	return cmd
}

// parse reads the output of ucx_perftest -v, ignoring warnings: iterations, then median, average
// and overall latency in microseconds, then average and overall MB/s (2^20 bytes).
func (f *ucxFigure) parse(said string) error {
	for line := range strings.Lines(said) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if len(fields) != 8 {
			continue
		}
		latency, err := strconv.ParseFloat(fields[3], 64)
		if err != nil {
			continue // the header line
		}
		rate, err := strconv.ParseFloat(fields[5], 64)
		if err != nil || !(latency > 0 && rate > 0 && latency+rate < math.MaxFloat64) {
			continue
		}
		f.AvgUs, f.MiBs = text.Micros(latency), rate
		return nil
	}
	return fmt.Errorf("no figures in %q", lastLine(said))
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// freePort returns a port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// ucxTable prints the figures, or the reason for their absence.
func ucxTable(w io.Writer, list []*ucxFigure, failure string) {
	switch {
	case failure != "":
		fmt.Fprintf(w, "\nUCX over TCP: %s\n", failure)
	case len(list) == 0:
		fmt.Fprintf(w, "\nUCX over TCP: not measured, %s is not installed (Debian: ucx-utils)\n", ucxCommand)
	default:
		fmt.Fprintln(w, "\nUCX over TCP, in the same run:")
	}
	for _, f := range list {
		if f.AvgUs > 0 {
			fmt.Fprintf(w, "  %-12s %8d bytes  %8.1f µs one way\n", f.Test, f.Size, f.AvgUs)
		} else {
			fmt.Fprintf(w, "  %-12s %8d bytes  %8.0f MiB/s\n", f.Test, f.Size, f.MiBs)
		}
	}
}
