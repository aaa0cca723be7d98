// What rnic-bench found, as a table and as JSON.

package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// A VerbsReport is the JSON form of a run. Rates are in MiB/s, times in microseconds.
type VerbsReport struct {
	Depth   int            `json:"depth"`
	Raw     rawReport      `json:"raw_tcp"`
	Figures []*verbsFigure `json:"figures"`
	UCX     []*ucxFigure   `json:"ucx_tcp,omitempty"` // none: not installed, or
	UCXErr  string         `json:"ucx_error,omitempty"`
}

type verbsFigure struct {
	Mode  Mode    `json:"mode"`
	Test  string  `json:"test"` // send, write, read
	Size  int     `json:"bytes"`
	Count int64   `json:"count"`
	MiBs  float64 `json:"mib_s,omitempty"`
	AvgUs float64 `json:"avg_us,omitempty"` // of a Send and its answer
	P50Us float64 `json:"p50_us,omitempty"`
	P99Us float64 `json:"p99_us,omitempty"`
	// Ratio is throughput as a share of raw TCP's stream, or for send the time
	// as a multiple of raw TCP's ping-pong.
	Ratio float64 `json:"ratio_to_raw"`
}

func (r *VerbsReport) compare(raw rawReport) {
	r.Raw = raw
	for _, f := range r.Figures {
		if f.Test == "send" {
			f.Ratio = f.AvgUs / raw.PingPongUs
		} else {
			f.Ratio = f.MiBs / raw.StreamMiBs
		}
	}
}

// Table writes the report for people, one table for each mode.
func (r *VerbsReport) Table(w io.Writer) error {
	fmt.Fprintf(w, "raw TCP: stream of 1 MiB writes %.0f MiB/s, ping-pong of %d bytes %.1f µs\n",
		r.Raw.StreamMiBs, rawMessage, r.Raw.PingPongUs)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var mode *Mode
	for _, f := range r.Figures {
		if mode == nil || *mode != f.Mode {
			mode = &f.Mode
			fmt.Fprintf(tw, "\t\t\t\t\t\t\n%s\tbytes\tMiB/s\tavg µs\tp50 µs\tp99 µs\tto raw TCP\t\n", mode)
		}
		switch f.Test {
		case "send":
			fmt.Fprintf(tw, "Send and answer\t%d\t\t%.1f\t%.1f\t%.1f\t%.2f×\t\n", f.Size, f.AvgUs, f.P50Us, f.P99Us, f.Ratio)
		case "write":
			fmt.Fprintf(tw, "RDMA Write\t%d\t%.0f\t\t\t\t%.0f%%\t\n", f.Size, f.MiBs, 100*f.Ratio)
		default:
			fmt.Fprintf(tw, "RDMA Read\t%d\t%.0f\t\t\t\t%.0f%%\t\n", f.Size, f.MiBs, 100*f.Ratio)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	ucxTable(w, r.UCX, r.UCXErr)
	return nil
}
