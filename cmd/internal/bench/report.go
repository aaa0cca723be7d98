// What bench found, as a table and as JSON.

package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// A Report is the JSON form of a run. Rates are in MiB/s and calls/s, times in microseconds.
type Report struct {
	Target    string        `json:"target"`
	Transport string        `json:"transport"`
	CRC       string        `json:"crc,omitempty"`
	Depth     int           `json:"depth"`
	Conns     int           `json:"conns"`
	Size      int64         `json:"size_bytes"`
	Verified  int64         `json:"verified_bytes"`
	Raw       *rawReport    `json:"raw_tcp,omitempty"`
	Tests     []*TestReport `json:"tests"`
}

// A TestReport is the figures of one test.
type TestReport struct {
	Name   string  `json:"name"`
	Depth  int     `json:"depth"`
	Calls  uint64  `json:"calls"`
	Bytes  int64   `json:"bytes"`
	Secs   float64 `json:"seconds"`
	PerSec float64 `json:"calls_per_s"`
	MiBs   float64 `json:"mib_s,omitempty"`
	MinUs  float64 `json:"min_us"`
	AvgUs  float64 `json:"avg_us"`
	P50Us  float64 `json:"p50_us"`
	P99Us  float64 `json:"p99_us"`
	MaxUs  float64 `json:"max_us"`
	Allocs float64 `json:"client_allocs_per_call"`
	// Ratio is throughput as a share of raw TCP's stream, or for NULL the
	// latency as a multiple of raw TCP's ping-pong.
	Ratio float64 `json:"ratio_to_raw,omitempty"`
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func (r *Report) add(name string, m *measured, depth int) *TestReport {
	secs := m.elapsed.Seconds()
	t := &TestReport{
		Name: name, Depth: depth, Calls: m.h.N, Bytes: m.bytes, Secs: secs,
		PerSec: float64(m.h.N) / secs, MiBs: float64(m.bytes) / (1 << 20) / secs,
		MinUs: us(m.h.Min), AvgUs: us(m.h.Mean()), P50Us: us(m.h.Quantile(0.5)), P99Us: us(m.h.Quantile(0.99)),
		MaxUs: us(m.h.Max), Allocs: m.allocs,
	}
	r.Tests = append(r.Tests, t)
	return t
}

// compare sets the ratios to raw TCP.
func (r *Report) compare(raw rawReport) {
	r.Raw = &raw
	for _, t := range r.Tests {
		switch t.Name {
		case "read", "write":
			t.Ratio = t.MiBs / r.Raw.StreamMiBs
		case "null":
			t.Ratio = t.AvgUs / r.Raw.PingPongUs
		}
	}
}

// titles is what the table calls the tests.
var titles = map[string]string{
	"null": "NULL", "getattr": "GETATTR", "lookup": "LOOKUP", "read": "READ 1 MiB", "write": "WRITE 1 MiB + COMMIT",
	"randread": "READ 4 KiB random", "randwrite": "WRITE 4 KiB random + COMMIT",
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
	fmt.Fprintf(tw, "test\tdepth\tMiB/s\tcalls/s\tavg µs\tp50 µs\tp99 µs\tallocs/call\tto raw TCP\t\n")
	if r.Raw != nil {
		fmt.Fprintf(tw, "raw TCP stream 1 MiB\t1\t%.0f\t\t\t\t\t\t\t\n", r.Raw.StreamMiBs)
		fmt.Fprintf(tw, "raw TCP ping-pong 100 B\t1\t\t%.0f\t%.1f\t\t\t\t\t\n", 1e6/r.Raw.PingPongUs, r.Raw.PingPongUs)
	}
	for _, t := range r.Tests {
		rate, ratio := "", ""
		if t.Bytes > 0 {
			rate = fmt.Sprintf("%.0f", t.MiBs)
		}
		switch {
		case t.Ratio == 0:
		case t.Name == "null":
			ratio = fmt.Sprintf("%.2f×", t.Ratio)
		default:
			ratio = fmt.Sprintf("%.0f%%", 100*t.Ratio)
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%.0f\t%.1f\t%.1f\t%.1f\t%.2f\t%s\t\n", titles[t.Name], t.Depth, rate, t.PerSec,
			t.AvgUs, t.P50Us, t.P99Us, t.Allocs, ratio)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if r.Verified > 0 {
		fmt.Fprintf(w, "\nverified: %s byte by byte, the rest by its stamps\n", text.Size(uint64(r.Verified)))
	}
	return nil
}
