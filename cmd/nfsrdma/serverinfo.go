// nfsrdma df, showmount and ping: about a server.

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func newDf(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "df PATH...",
		Short:   "Show the space of exports",
		Example: "  nfsrdma df nfsrdma://server/export",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintf(w, "Size\tUsed\tAvail\tUse%%\tFiles\tFree files\t  Path\n")
			for _, arg := range args {
				fsys, name, err := s.open(cmd.Context(), arg)
				if err != nil {
					return err
				}
				st, err := fsys.StatFSOf(cmd.Context(), name)
				if err != nil {
					return err
				}
				used := st.Tbytes - min(st.Fbytes, st.Tbytes)
				percent := 0.0
				if all := used + st.Abytes; all > 0 {
					percent = 100 * float64(used) / float64(all)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%.0f%%\t%d\t%d\t  %s\n", size(st.Tbytes), size(used), size(st.Abytes),
					percent, st.Tfiles, st.Ffiles, fsys.Path())
			}
			return w.Flush()
		},
	}
}

func newShowmount(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "showmount HOST",
		Short: "List what a server exports, and to whom",
		Example: `  nfsrdma showmount server
  nfsrdma showmount --transport tcp --mount-port 20048 server`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := s.server(args[0])
			if err != nil {
				return err
			}
			c, err := s.dial(cmd.Context(), t)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), s.flags.connectTimeout)
			defer cancel()
			list, err := c.Exports(ctx)
			if err != nil {
				return s.explainSilence(t, "list exports", err)
			}
			for _, x := range list {
				who := "everyone"
				if len(x.Groups) > 0 {
					who = strings.Join(x.Groups, ",")
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", printable(x.Dir), printable(who))
			}
			return nil
		},
	}
}

func newPing(s *session) *cobra.Command {
	var count int
	var every time.Duration
	var quiet bool
	cmd := &cobra.Command{
		Use:   "ping HOST",
		Short: "Measure round trips of the NULL procedure",
		Example: `  nfsrdma ping server
  nfsrdma ping -c 10000 -i 0 -q nfsrdma://server:20049
  nfsrdma ping --transport tcp server`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := s.server(args[0])
			if err != nil {
				return err
			}
			c, err := s.dial(cmd.Context(), t)
			if err != nil {
				return err
			}
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			h := new(histogram)
			first, cancel := context.WithTimeout(ctx, s.flags.connectTimeout)
			defer cancel()
			if err := c.Null(first); err != nil { // over TCP, anything may be at the other end
				return s.explainSilence(t, "ping", err)
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
					return fmt.Errorf("%s: ping: %w", s.name(t), err)
				}
				d := time.Since(start)
				h.add(d)
				if !quiet {
					fmt.Fprintf(out, "NULL from %s over %s: seq=%d time=%s\n", t.Addr(), t.Transport, i, micro(d))
				}
			}
			pingSummary(out, h)
			return nil
		},
	}
	cmd.Flags().IntVarP(&count, "count", "c", 5, "round trips; 0: until interrupted")
	cmd.Flags().DurationVarP(&every, "interval", "i", 200*time.Millisecond, "pause between round trips")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "the summary only")
	return cmd
}

func pingSummary(w io.Writer, h *histogram) {
	fmt.Fprintf(w, "%d round trips: min %s, avg %s, p50 %s, p99 %s, max %s\n", h.n, micro(h.lo), micro(h.mean()),
		micro(h.quantile(0.50)), micro(h.quantile(0.99)), micro(h.hi))
}

// micro writes a duration in microseconds.
func micro(d time.Duration) string {
	return fmt.Sprintf("%.1fµs", float64(d.Nanoseconds())/1000)
}
