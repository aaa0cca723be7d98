// rnic-bench's results, as a table and as JSON.

package bench

import (
	"fmt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"io"
	"text/tabwriter"
)

// A VerbsReport is a run's JSON form. Rates are in MiB/s, times in microseconds.
type VerbsReport struct {
	// of Writes and Reads: operations in flight, unless the figure has its own
	Depth   int            `json:"depth"`
	Raw     rawReport      `json:"raw_tcp,omitzero"` // the yardstick of iWARP
	UDP     udpReport      `json:"raw_udp,omitzero"` // of RoCE's
	Figures []*verbsFigure `json:"figures"`          // a row for each mode and test
	// UCX beside it; none: not installed, or ucx_error
	UCX     []*ucxFigure `json:"ucx_tcp,omitempty"`
	UCXErr  string       `json:"ucx_error,omitempty"` // why there are none
	streams []float64    // raw UDP streams, measured alternately with RoCE
}

type verbsFigure struct {
	Mode  Mode        `json:"mode"`                   // of the device
	Test  string      `json:"test"`                   // send, datagram, write, read
	Size  int         `json:"bytes"`                  // of an operation
	Depth int         `json:"depth,omitempty"`        // of Writes and Reads: how many in flight
	Count int64       `json:"count"`                  // operations
	MiBs  float64     `json:"mib_s,omitempty"`        // throughput
	AvgUs text.Micros `json:"mean_seconds,omitempty"` // for a Send and its answer
	P50Us text.Micros `json:"p50_seconds,omitempty"`  // half took at most this
	P99Us text.Micros `json:"p99_seconds,omitempty"`  // 99 % took at most this
	// Ratio is throughput as a share of raw TCP's stream, or for send the time
	// as a multiple of raw TCP's ping-pong; over RoCE it is raw UDP's.
	Ratio float64 `json:"ratio_to_raw"`
}

// isLatency reports whether the figure is a time rather than a rate.
func (f *verbsFigure) isLatency() bool { return f.Test == "send" || f.Test == "datagram" }

// depthNote returns a note for a depth other than the usual depth.
func (f *verbsFigure) depthNote() string {
	if f.Depth == verbsDeep {
		return fmt.Sprintf(", %d in flight", f.Depth)
	}
	return ""
}

func (r *VerbsReport) compare(raw rawReport) {
	r.Raw = raw
	r.ratios(raw.StreamMiBs, float64(raw.PingPongUs))
}

// ratios sets the figures' ratios to a baseline.
func (r *VerbsReport) ratios(stream, pingPong float64) {
	for _, f := range r.Figures {
		switch {
		case f.Ratio > 0: // set by the alternating measurement
		case f.isLatency():
			f.Ratio = float64(f.AvgUs) / pingPong
		default:
			f.Ratio = f.MiBs / stream
		}
	}
}

// Table writes the report for people, one table for each mode.
func (r *VerbsReport) Table(w io.Writer) error {
	raw := "raw TCP"
	if r.UDP.StreamMiBs > 0 {
		raw = "raw UDP"
		fmt.Fprintf(w, "raw UDP: stream of packets of %d bytes, %d joined, %.0f MiB/s, ping-pong of %d bytes %.1f µs\n",
			udpPacket, udpJoined, r.UDP.StreamMiBs, rawMessage, r.UDP.PingPongUs)
	} else {
		fmt.Fprintf(w, "raw TCP: stream of 1 MiB writes %.0f MiB/s, ping-pong of %d bytes %.1f µs\n",
			r.Raw.StreamMiBs, rawMessage, r.Raw.PingPongUs)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var mode *Mode
	for _, f := range r.Figures {
		if mode == nil || *mode != f.Mode {
			mode = &f.Mode
			fmt.Fprintf(tw, "\t\t\t\t\t\t\n%s\tbytes\tMiB/s\tavg µs\tp50 µs\tp99 µs\tto %s\t\n", mode, raw)
		}
		switch f.Test {
		case "send":
			fmt.Fprintf(tw, "Send and answer\t%d\t\t%.1f\t%.1f\t%.1f\t%.2f×\t\n", f.Size, f.AvgUs, f.P50Us, f.P99Us, f.Ratio)
		case "datagram":
			fmt.Fprintf(tw, "Datagram and answer\t%d\t\t%.1f\t%.1f\t%.1f\t%.2f×\t\n", f.Size, f.AvgUs, f.P50Us, f.P99Us, f.Ratio)
		case "write":
			fmt.Fprintf(tw, "RDMA Write%s\t%d\t%.0f\t\t\t\t%.0f%%\t\n", f.depthNote(), f.Size, f.MiBs, 100*f.Ratio)
		default:
			fmt.Fprintf(tw, "RDMA Read%s\t%d\t%.0f\t\t\t\t%.0f%%\t\n", f.depthNote(), f.Size, f.MiBs, 100*f.Ratio)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if r.UDP.StreamMiBs == 0 {
		ucxTable(w, r.UCX, r.UCXErr)
	}
	return nil
}
