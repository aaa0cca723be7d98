// bench's results, as a table and as JSON.

package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// A Report is a run's JSON form. Rates are in MiB/s and calls/s, times in seconds.
type Report struct {
	Target    string        `json:"target"`            // the measured directory
	Transport string        `json:"transport"`         // to the server
	CRC       string        `json:"crc,omitempty"`     // over RDMA
	Depth     int           `json:"depth"`             // calls in flight
	Conns     int           `json:"conns"`             // connections
	Size      int64         `json:"size_bytes"`        // of the file
	Block     int64         `json:"block_bytes"`       // of a READ or WRITE in the sequential tests
	Verified  int64         `json:"verified_bytes"`    // compared bytes
	Raw       *rawReport    `json:"raw_tcp,omitempty"` // for a server on this machine
	Tests     []*TestReport `json:"tests"`             // in their order
}

// A TestReport is one test's figures.
type TestReport struct {
	Name        string      `json:"name"`                        // of the test
	Depth       int         `json:"depth"`                       // calls in flight
	Calls       uint64      `json:"calls"`                       // calls made
	Bytes       int64       `json:"bytes"`                       // of data
	Secs        float64     `json:"seconds"`                     // duration of the test
	PerSec      float64     `json:"calls_per_s"`                 // calls in a second
	MiBs        float64     `json:"mib_s,omitempty"`             // data in a second
	MinUs       text.Micros `json:"min_seconds"`                 // the shortest call
	AvgUs       text.Micros `json:"mean_seconds"`                // their mean
	P50Us       text.Micros `json:"p50_seconds"`                 // half took at most this
	P99Us       text.Micros `json:"p99_seconds"`                 // 99 % took at most this
	MaxUs       text.Micros `json:"max_seconds"`                 // the longest call
	Allocs      float64     `json:"client_allocs_per_call"`      // memory allocations in the client
	ClientCPUUs text.Micros `json:"client_cpu_seconds_per_call"` // CPU time for a call
	// likewise, if the server's process is known
	ServerCPUUs text.Micros `json:"server_cpu_seconds_per_call,omitempty"`
	// Entries is what READDIRPLUS brought in a second.
	Entries float64 `json:"entries_per_s,omitempty"`
	// Ratio is throughput as a share of raw TCP's stream, or for NULL the
	// latency as a multiple of raw TCP's ping-pong.
	Ratio float64 `json:"ratio_to_raw,omitempty"`
	// Limit is throughput as a share of what pread or pwrite and CRCs leave of raw TCP.
	Limit float64 `json:"ratio_to_limit,omitempty"`
}

func us(d time.Duration) text.Micros { return text.Micros(d.Nanoseconds()) / 1000 }

func (r *Report) add(name string, m *measured, depth int) *TestReport {
	secs := m.elapsed.Seconds()
	t := &TestReport{
		Name: name, Depth: depth, Calls: m.h.N, Bytes: m.bytes, Secs: secs,
		PerSec: float64(m.h.N) / secs, MiBs: float64(m.bytes) / (1 << 20) / secs,
		MinUs: us(m.h.Min), AvgUs: us(m.h.Mean()), P50Us: us(m.h.Quantile(0.5)), P99Us: us(m.h.Quantile(0.99)),
		MaxUs: us(m.h.Max), Allocs: m.allocs,
	}
	if name == "readdirplus" { // the loop counted entries as bytes
		t.Entries, t.Bytes, t.MiBs = float64(m.bytes)/secs, 0, 0
	}
	if m.h.N > 0 {
		t.ClientCPUUs, t.ServerCPUUs = us(m.cpu.client)/text.Micros(m.h.N), us(m.cpu.server)/text.Micros(m.h.N)
	}
	r.Tests = append(r.Tests, t)
	return t
}

// compare sets the ratios to raw TCP and to its limits. The limits assume 1 MiB blocks.
func (r *Report) compare(raw rawReport) {
	r.Raw = &raw
	for _, t := range r.Tests {
		switch t.Name {
		case "read", "write":
			t.Ratio = t.MiBs / r.Raw.StreamMiBs
		case "null":
			t.Ratio = float64(t.AvgUs / r.Raw.PingPongUs)
		}
		if limit := raw.Limits.forTest(t.Name, r.CRC); limit > 0 {
			t.Limit = t.MiBs / limit
		}
	}
}

// titles has the tests' names in the table.
var titles = map[string]string{
	"null": "NULL", "getattr": "GETATTR", "lookup": "LOOKUP", "read": "READ 1 MiB", "write": "WRITE 1 MiB + COMMIT",
	"randread": "READ 4 KiB random", "randwrite": "WRITE 4 KiB random + COMMIT", "readdirplus": "READDIRPLUS",
}

// title returns a test's name in the table. titles assumes 1 MiB blocks.
func (r *Report) title(t *TestReport) string {
	if r.Block != 0 && r.Block != seqBlock && (t.Name == "read" || t.Name == "write") {
		return strings.Replace(titles[t.Name], "1 MiB", fmt.Sprintf("%d KiB", r.Block>>10), 1)
	}
	return titles[t.Name]
}

// cpu formats the CPU time per call: the client's, and the server's if it is known.
func (t *TestReport) cpu() string {
	if t.ServerCPUUs == 0 {
		return fmt.Sprintf("%.1f", t.ClientCPUUs)
	}
	return fmt.Sprintf("%.1f + %.1f", t.ClientCPUUs, t.ServerCPUUs)
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	crc := ""
	if r.CRC != "" {
		crc = ", CRC " + r.CRC
	}
	fmt.Fprintf(w, "%s over %s%s, depth %d, %s, file of %s\n\n", r.Target, r.Transport, crc, r.Depth,
		text.Plural(int64(r.Conns), "connection"), text.Size(uint64(r.Size)))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "test\tdepth\tMiB/s\tcalls/s\tavg µs\tp50 µs\tp99 µs\tCPU µs/call\tallocs/call\tto raw TCP\tto limit\t\n")
	if r.Raw != nil {
		fmt.Fprintf(tw, "raw TCP stream 1 MiB\t1\t%.0f\t\t\t\t\t\t\t\t\t\n", r.Raw.StreamMiBs)
		fmt.Fprintf(tw, "raw TCP ping-pong 100 B\t1\t\t%.0f\t%.1f\t\t\t\t\t\t\t\n", 1e6/r.Raw.PingPongUs, r.Raw.PingPongUs)
		for _, l := range r.Raw.Limits.named() {
			fmt.Fprintf(tw, "%s\t1\t%.0f\t\t\t\t\t\t\t%.0f%%\t\t\n", l.name, l.rate, 100*l.rate/r.Raw.StreamMiBs)
		}
	}
	for _, t := range r.Tests {
		rate, ratio, limit := "", "", ""
		if t.Bytes > 0 {
			rate = fmt.Sprintf("%.0f", t.MiBs)
		}
		if t.Limit > 0 {
			limit = fmt.Sprintf("%.0f%%", 100*t.Limit)
		}
		switch {
		case t.Ratio == 0:
		case t.Name == "null":
			ratio = fmt.Sprintf("%.2f×", t.Ratio)
		default:
			ratio = fmt.Sprintf("%.0f%%", 100*t.Ratio)
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%.0f\t%.1f\t%.1f\t%.1f\t%s\t%.2f\t%s\t%s\t\n", r.title(t), t.Depth, rate, t.PerSec,
			t.AvgUs, t.P50Us, t.P99Us, t.cpu(), t.Allocs, ratio, limit)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, t := range r.Tests {
		if t.Entries > 0 {
			fmt.Fprintf(w, "\nREADDIRPLUS: %.0f entries/s\n", t.Entries)
		}
	}
	if r.Verified > 0 {
		fmt.Fprintf(w, "\nverified: %s byte by byte, the rest by its stamps\n", text.Size(uint64(r.Verified)))
	}
	return nil
}
