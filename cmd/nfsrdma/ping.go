// nfsrdma ping: round trips to a server.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
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
		Short: "Measure round trips to a server",
		Long:  "Measure round trips to a server, by calls of the NULL procedure of NFS.",
		Example: `  nfsrdma ping server
  nfsrdma ping -c 10000 -i 0 -q nfsrdma://server:20049
  nfsrdma ping --proto tcp server`,
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
			if c, err = s.WithFlavor(t, c); err != nil {
				return err
			}
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			h := new(bench.Histogram)
			if err := s.FirstAnswer(ctx, t, "ping", c.Null); err != nil {
				// over TCP, another service may answer the connection
				return err
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
						break // interrupted: report the round trips so far
					}
					return fmt.Errorf("%s: ping: %w", s.Name(t), err)
				}
				d := time.Since(start)
				h.Add(d)
				if !quiet && !asJSON {
					fmt.Fprintf(out, "NULL from %s over %s: seq=%d time=%s\n", c.Links()[0].Addr, transportOf(c)+securityOf(c), i, micro(d))
				}
			}
			if asJSON {
				return json.NewEncoder(out).Encode(newPingReport(t, c, h))
			}
			pingSummary(out, h)
			return nil
		},
	}
	cmd.Flags().IntVarP(&count, "count", "c", 5, "measure `N` round trips; 0: until Ctrl-C")
	cli.DurationVarP(cmd.Flags(), &every, "interval", "i", 200*time.Millisecond, "wait this `TIME` between round trips")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the summary only")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON, with times in seconds")
	return cmd
}

// A pingReport is the summary for --json.
type pingReport struct {
	Server    string  `json:"server"`           // its address and port
	Transport string  `json:"transport"`        // rdma or tcp
	Sec       string  `json:"sec"`              // security flavor: sys, krb5, krb5i or krb5p
	XprtSec   string  `json:"xprtsec"`          // none, tls or mtls
	Cipher    string  `json:"cipher,omitempty"` // of TLS
	Count     uint64  `json:"count"`            // round trips
	Min       float64 `json:"min_seconds"`      // the shortest round trip
	Mean      float64 `json:"mean_seconds"`     // their mean
	P50       float64 `json:"p50_seconds"`      // half took at most this
	P99       float64 `json:"p99_seconds"`      // 99 % took at most this
	Max       float64 `json:"max_seconds"`      // the longest round trip
}

// transportOf returns a connection's transport, rdma or tcp.
func transportOf(c *nfsclient.Client) string {
	if c.Links()[0].Transport == nfsclient.TCP.String() {
		return nfsclient.TCP.String()
	}
	return nfsclient.RDMA.String()
}

// securityOf returns the flavor and the cipher of a connection, if they protect its calls.
func securityOf(c *nfsclient.Client) (s string) {
	if c.Kerberos() {
		s = " with " + nfsclient.SecName(c.Flavor())
	}
	if l := c.Links()[0]; l.Cipher != "" {
		s += ", " + l.Xprtsec + " (" + l.Cipher + ")"
	}
	return s
}

func newPingReport(t nfsclient.Target, c *nfsclient.Client, h *bench.Histogram) *pingReport {
	l := c.Links()[0]
	return &pingReport{Server: t.Addr(), Transport: transportOf(c), Sec: nfsclient.SecName(c.Flavor()), XprtSec: l.Xprtsec, Cipher: l.Cipher, Count: h.N, Min: h.Min.Seconds(), Mean: h.Mean().Seconds(),
		P50: h.Quantile(0.50).Seconds(), P99: h.Quantile(0.99).Seconds(), Max: h.Max.Seconds()}
}

func pingSummary(w io.Writer, h *bench.Histogram) {
	fmt.Fprintf(w, "%d round trips: min %s, avg %s, p50 %s, p99 %s, max %s\n", h.N, micro(h.Min), micro(h.Mean()),
		micro(h.Quantile(0.50)), micro(h.Quantile(0.99)), micro(h.Max))
}

// micro formats a duration in microseconds.
func micro(d time.Duration) string {
	return fmt.Sprintf("%.1fµs", float64(d.Nanoseconds())/1000)
}
