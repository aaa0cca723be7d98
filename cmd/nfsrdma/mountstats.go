// nfsrdma mountstats: a mount's statistics, from its process.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mounter"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"github.com/spf13/cobra"
)

// A mountFigures is one report. Its figures have text.Fields' keys in JSON.
type mountFigures struct {
	Source  string       `json:"source"`  // HOST:/export, as it was given
	Dir     string       `json:"dir"`     // the mount point
	Options string       `json:"options"` // transport to the server, and other options
	Stats   fusefs.Stats `json:"stats"`   // since the mount, or in the interval
}

// jsonFigures is the encoded form of a mountFigures.
type jsonFigures struct {
	Source  string         `json:"source"`
	Dir     string         `json:"dir"`
	Options string         `json:"options"`
	Stats   map[string]any `json:"stats"`
}

// jsonStats returns the figures with their JSON keys. Histograms have only their nonzero entries,
// with bounds.
func jsonStats(s fusefs.Stats) map[string]any {
	calls := map[string]any{}
	for name, c := range s.Calls {
		object := text.Fields(reflect.ValueOf(c))
		counts, bounds := []uint64{}, []float64{}
		for i, n := range c.Times {
			if n > 0 {
				counts, bounds = append(counts, n), append(bounds, nfsclient.TimeBucket(i).Seconds())
			}
		}
		object["times"], object["times_least_seconds"] = counts, bounds
		calls[name] = object
	}
	object := text.Fields(reflect.ValueOf(s))
	object["calls"] = calls
	return object
}

func newMountstats() *cobra.Command {
	var asJSON bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "mountstats DIR",
		Short: "Report what a mount has done",
		Long: `Report the activity of a mount since it was mounted. The report has the operations
of programs, and the calls to the server. A call has a time in the queue and a round
trip. The report also has cache hits, connections with their credits, data in
flight, and memory with its limit. Only root and the user of the mount can ask.

With --interval, each report after the first one covers the time since the last.
In JSON, times counts round trips, each entry from the length on that is at the same
place of times_least_seconds.`,
		Example: `  nfsrdma mountstats /mnt
  nfsrdma mountstats --interval 1s /mnt
  nfsrdma mountstats --json /mnt`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < 0 {
				return fmt.Errorf("--interval %v: must be more than 0", every)
			}
			m, err := mountctl.Find(args[0])
			if err != nil {
				return err
			}
			c, err := mountctl.Dial(m)
			if errors.Is(err, mountctl.ErrNoProcess) {
				return fmt.Errorf("%s: %w: clear it with nfsrdma umount %s", args[0], mountctl.ErrNoProcess, args[0])
			}
			if err != nil {
				return err
			}
			defer c.Close()
			var before *fusefs.Stats
			for {
				var r mounter.Report
				if err := c.Stats(&r); err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				report := mountFigures{Source: m.Source, Dir: m.Dir, Options: r.ListOptions(), Stats: r.Stats}
				now := report.Stats
				if before != nil {
					report.Stats = now.Since(before)
				}
				before = &now
				if err := printFigures(cmd.OutOrStdout(), &report, asJSON); err != nil || every == 0 {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(every):
				}
			}
		},
		ValidArgsFunction: completeMounted,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object in one line, with times in seconds")
	cli.DurationVar(cmd.Flags(), &every, "interval", 0, "report each `TIME`, with the activity of that time")
	return cmd
}

func printFigures(w io.Writer, r *mountFigures, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(&jsonFigures{r.Source, r.Dir, r.Options, jsonStats(r.Stats)})
	}
	fmt.Fprintf(w, "%s mounted on %s (%s)\n", text.HideControl(r.Source), text.HideControl(r.Dir), text.HideControl(r.Options))
	printStruct(w, reflect.ValueOf(r.Stats), "  ")
	_, err := fmt.Fprintln(w)
	return err
}

// printStruct writes the figures of a struct by field name: first the plain values, one per line,
// then each nested struct and table.
func printStruct(w io.Writer, v reflect.Value, indent string) {
	var later []int
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !v.Type().Field(i).IsExported():
		case f.Kind() == reflect.Struct || f.Kind() == reflect.Map || f.Kind() == reflect.Slice:
			later = append(later, i)
		default:
			name := text.FieldWords(v.Type().Field(i).Name)
			fmt.Fprintf(w, "%s%-24s %s\n", indent, name+":", figure(name, f))
		}
	}
	for _, i := range later {
		f := v.Field(i)
		if f.Kind() != reflect.Struct && f.Len() == 0 {
			continue
		}
		fmt.Fprintf(w, "%s%s:\n", indent, text.FieldWords(v.Type().Field(i).Name))
		if f.Kind() == reflect.Struct {
			printStruct(w, f, indent+"  ")
			continue
		}
		printTable(w, f, indent+"  ")
	}
}

// printTable writes a map or list: one line per entry, one column per field.
func printTable(w io.Writer, v reflect.Value, indent string) {
	type row struct {
		name  string
		value reflect.Value
	}
	var rows []row
	if v.Kind() == reflect.Map {
		for it := v.MapRange(); it.Next(); {
			rows = append(rows, row{fmt.Sprint(it.Key()), it.Value()})
		}
		slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	} else {
		for i := range v.Len() {
			rows = append(rows, row{fmt.Sprint(i + 1), v.Index(i)})
		}
	}
	elem := v.Type().Elem()
	if elem.Kind() != reflect.Struct {
		for _, r := range rows {
			fmt.Fprintf(w, "%s%-16s %12s\n", indent, r.name, figure(r.name, r.value))
		}
		return
	}
	fmt.Fprintf(w, "%s%-16s", indent, "")
	var shown []int // lists in a table are only in JSON
	for i := range elem.NumField() {
		if elem.Field(i).Type.Kind() != reflect.Slice {
			shown = append(shown, i)
			fmt.Fprintf(w, " %15s", text.FieldWords(elem.Field(i).Name))
		}
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%s%-16s", indent, r.name)
		for _, i := range shown {
			fmt.Fprintf(w, " %15s", figure(text.FieldWords(elem.Field(i).Name), r.value.Field(i)))
		}
		fmt.Fprintln(w)
	}
}

// byteFigures are words in the names of figures in bytes.
var byteFigures = []string{"bytes", "dirty", "in flight", "unstable", "memory", "read ahead", "read misses", "rewritten"}

// figure formats one value. The name decides whether a number is in bytes.
func figure(name string, v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		if d >= time.Second {
			return d.Round(time.Second).String()
		}
		return d.Round(time.Microsecond).String()
	}
	switch name = strings.ToLower(name); {
	case slices.ContainsFunc(byteFigures, func(word string) bool { return strings.Contains(name, word) }):
		switch {
		case v.CanUint():
			return text.Size(v.Uint())
		case v.CanInt() && v.Int() >= 0:
			return text.Size(uint64(v.Int()))
		}
	}
	return fmt.Sprint(v.Interface())
}
