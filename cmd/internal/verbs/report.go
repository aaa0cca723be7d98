// The tests' results, as text and as JSON.

package verbs

import (
	"fmt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"io"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

// Common is the part common to all reports. Ends are named by address and queue-pair number.
type Common struct {
	Test       string `json:"test"`                // its name
	Role       string `json:"role"`                // client or server
	Service    string `json:"service"`             // rc, uc or ud
	Local      string `json:"local"`               // this end
	Remote     string `json:"remote"`              // the other end
	MTU        int    `json:"mtu_bytes,omitempty"` // not of rping
	Size       int    `json:"size_bytes"`          // of a message
	Iterations int    `json:"iterations"`          // messages
	// all messages together, both ways; none: this end has not counted them
	Bytes   uint64  `json:"bytes,omitempty"`
	Seconds float64 `json:"seconds"` // duration of the test
}

func common(test string, o *Options, local, remote roce.Identity, took time.Duration) Common {
	c := Common{Test: test, Role: o.role(), Service: serviceNames[o.Service], Local: formatIdentity(local), Remote: formatIdentity(remote), MTU: o.MTU, Size: o.Size,
		Iterations: o.Iterations, Bytes: 2 * uint64(o.Size) * uint64(o.Iterations), Seconds: took.Seconds()}
	if c.MTU == 0 {
		c.MTU = local.MTU
	}
	return c
}

// head returns each table's first line.
func (c *Common) head() string {
	s := fmt.Sprintf("%s over %s as %s: %s to %s", c.Test, c.Service, c.Role, c.Local, c.Remote)
	if c.MTU > 0 {
		s += fmt.Sprintf(", path MTU %d", c.MTU)
	}
	return s
}

// A PingpongReport is Pingpong's or Rping's result.
type PingpongReport struct {
	Common
	Megabits     float64     `json:"mbit_per_s"`        // of all messages
	PerIteration text.Micros `json:"iteration_seconds"` // for a message and its answer
}

// rates computes rates from bytes, iterations and time.
func (r *PingpongReport) rates() {
	if r.Seconds > 0 && r.Iterations > 0 {
		r.Megabits = float64(r.Bytes) * 8 / 1e6 / r.Seconds
		r.PerIteration = text.Micros(r.Seconds * 1e6 / float64(r.Iterations))
	}
}

// Table writes the report as text.
func (r *PingpongReport) Table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n%d bytes in %.2f seconds = %.2f Mbit/s\n%d iterations of %d bytes in %.2f seconds = %.2f µs each\n",
		r.head(), r.Bytes, r.Seconds, r.Megabits, r.Iterations, r.Size, r.Seconds, r.PerIteration)
	return err
}

// A PerfReport is Perf's result. A server of ib_write_bw reports its client's results; a server of
// ib_read_lat has none.
type PerfReport struct {
	Common
	Messages int     `json:"messages"`                         // that were sent, or have come: UC and UD lose some
	Average  float64 `json:"mib_per_s,omitempty"`              // of bandwidth tests
	Rate     float64 `json:"million_messages_per_s,omitempty"` // of bandwidth tests
	// for the client of ib_read_lat
	Min  text.Micros   `json:"min_seconds,omitempty"`
	Mean text.Micros   `json:"mean_seconds,omitempty"` // the mean
	P50  text.Micros   `json:"p50_seconds,omitempty"`  // half took at most this
	P99  text.Micros   `json:"p99_seconds,omitempty"`  // 99 % took at most this
	Max  text.Micros   `json:"max_seconds,omitempty"`  // the longest
	took time.Duration // time from the first message to the last, if measured
}

// rates computes rates from the number of messages and the time.
func (r *PerfReport) rates() {
	r.Bytes = uint64(r.Size) * uint64(r.Messages)
	if r.Max == 0 && r.Seconds > 0 && r.Messages > 0 {
		r.Average = float64(r.Bytes) / (1 << 20) / r.Seconds
		r.Rate = float64(r.Messages) / 1e6 / r.Seconds
	}
}

func (r *PerfReport) latencies(h *bench.Histogram) {
	us := func(d time.Duration) text.Micros { return text.Micros(d.Nanoseconds()) / 1000 }
	r.Messages = int(h.N)
	r.Min, r.Mean, r.P50, r.P99, r.Max = us(h.Min), us(h.Mean()), us(h.Quantile(0.50)), us(h.Quantile(0.99)), us(h.Max)
}

// Table writes the report as text.
func (r *PerfReport) Table(w io.Writer) error {
	if r.Messages == 0 {
		_, err := fmt.Fprintf(w, "%s\ndone; the client has what was measured\n", r.head())
		return err
	}
	fmt.Fprintf(w, "%s\n%d of %d messages of %d bytes", r.head(), r.Messages, r.Iterations, r.Size)
	var err error
	switch {
	case r.Max > 0:
		_, err = fmt.Fprintf(w, ": min %.2f µs, avg %.2f µs, p50 %.2f µs, p99 %.2f µs, max %.2f µs\n", r.Min, r.Mean, r.P50, r.P99, r.Max)
	case r.Average > 0:
		_, err = fmt.Fprintf(w, ": %.2f MiB/s, %.6f million messages/s\n", r.Average, r.Rate)
	default:
		_, err = fmt.Fprintln(w)
	}
	return err
}
