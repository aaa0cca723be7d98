// nfsrdma ping: round trips to a server.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

func newPing(s *session.Session) *cobra.Command {
	var count int
	var every time.Duration
	var quiet, asJSON bool
	cmd := &cobra.Command{
		Use:   "ping HOST",
		Short: "Measure round trips of the NULL procedure",
		Example: `  nfsrdma ping server
  nfsrdma ping -c 10000 -i 0 -q nfsrdma://server:20049
  nfsrdma ping --transport tcp server`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := s.Server(args[0])
			if err != nil {
				return err
			}
			c, err := s.Dial(cmd.Context(), t)
			if err != nil {
				return err
			}
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			h := new(bench.Histogram)
			first, cancel := context.WithTimeout(ctx, s.Flags.ConnectTimeout)
			defer cancel()
			if err := c.Null(first); err != nil { // over TCP, anything may be at the other end
				return s.ExplainSilence(t, "ping", err)
			}
			for i := 0; i < count || count <= 0; i++ {
				if i > 0 && every > 0 {
					select {
					case <-time.After(every):
					case <-ctx.Done():
					}
				}
				start := time.Now()
				if err := c.Null(ctx); err != nil {
					if ctx.Err() != nil {
						break // interrupted: what was measured still counts
					}
					return fmt.Errorf("%s: ping: %w", s.Name(t), err)
				}
				d := time.Since(start)
				h.Add(d)
				if !quiet && !asJSON {
					fmt.Fprintf(out, "NULL from %s over %s: seq=%d time=%s\n", c.Links()[0].Addr, t.Transport, i, micro(d))
				}
			}
			if asJSON {
				return json.NewEncoder(out).Encode(newPingReport(t, h))
			}
			pingSummary(out, h)
			return nil
		},
	}
	cmd.Flags().IntVarP(&count, "count", "c", 5, "round trips; 0: until interrupted")
	cmd.Flags().DurationVarP(&every, "interval", "i", 200*time.Millisecond, "pause between round trips")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "the summary only")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the summary only, as a JSON object with times in microseconds")
	return cmd
}

// A pingReport is the summary for --json; times are in microseconds.
type pingReport struct {
	Server    string  `json:"server"`
	Transport string  `json:"transport"`
	Count     uint64  `json:"count"`
	MinUs     float64 `json:"min_us"`
	AvgUs     float64 `json:"avg_us"`
	P50Us     float64 `json:"p50_us"`
	P99Us     float64 `json:"p99_us"`
	MaxUs     float64 `json:"max_us"`
}

func newPingReport(t nfsclient.Target, h *bench.Histogram) *pingReport {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return &pingReport{Server: t.Addr(), Transport: t.Transport.String(), Count: h.N, MinUs: us(h.Min), AvgUs: us(h.Mean()),
		P50Us: us(h.Quantile(0.50)), P99Us: us(h.Quantile(0.99)), MaxUs: us(h.Max)}
}

func pingSummary(w io.Writer, h *bench.Histogram) {
	fmt.Fprintf(w, "%d round trips: min %s, avg %s, p50 %s, p99 %s, max %s\n", h.N, micro(h.Min), micro(h.Mean()),
		micro(h.Quantile(0.50)), micro(h.Quantile(0.99)), micro(h.Max))
}

// micro writes a duration in microseconds.
func micro(d time.Duration) string {
	return fmt.Sprintf("%.1fµs", float64(d.Nanoseconds())/1000)
}
