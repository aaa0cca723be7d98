// The results: a table as text, JSON for programs, and the files of both and of the graphs.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// conditions describe a run's environment.
type conditions struct {
	Time    time.Time `json:"time"`
	System  string    `json:"system"`
	CPUs    string    `json:"cpus"`
	Place   string    `json:"place"`
	Path    string    `json:"path,omitempty"` // for the place wire
	Rounds  int       `json:"rounds"`
	Seconds float64   `json:"seconds_per_figure"`
}

func newConditions(c config) conditions {
	return conditions{Time: time.Now().UTC().Truncate(time.Second), System: system(), CPUs: c.cpus, Place: c.place, Rounds: c.rounds, Seconds: c.duration.Seconds()}
}

func (c *conditions) at() *conditions { return c }

// String returns the lines before a table.
func (c conditions) String() string {
	s := fmt.Sprintf("%s\n%s; CPUs %s; place %s; medians of %d rounds of %v a figure\n", c.Time.Format(time.RFC3339), c.System, c.CPUs, c.Place, c.Rounds,
		time.Duration(c.Seconds*float64(time.Second)))
	if c.Path != "" {
		s += c.Path + "\n"
	}
	return s
}

// found is the result of a run.
type found interface {
	at() *conditions
	table() string
	write(dir string) error
}

// A result is the JSON form of a run.
type result struct {
	conditions
	Rows    []line  `json:"rows"`
	Samples samples `json:"samples"`
	Graphs  []chart `json:"graphs,omitempty"`
}

// A line is a row with its figures, which are medians of the rounds.
type line struct {
	Group   string  `json:"group"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Figure  float64 `json:"figure"`
	Against string  `json:"against,omitempty"`
	Share   float64 `json:"share,omitempty"` // of Against
	// for the share if there is one, otherwise for the figure
	Bar     float64 `json:"bar,omitempty"`
	AtMost  bool    `json:"at_most,omitempty"`
	State   state   `json:"state"`
	Server  float64 `json:"server_cpu,omitempty"`
	Client  float64 `json:"client_cpu,omitempty"`
	CPUUnit string  `json:"cpu_unit,omitempty"`
}

// A state is the result of comparing with a bar.
type state string

const (
	stateMet     state = "met"
	stateNotMet  state = "NOT MET"
	stateNone    state = "" // there is no bar
	stateMissing state = "not measured"
)

func newResult(c config, chosen []group, s samples) *result {
	r := &result{conditions: newConditions(c), Samples: s}
	for _, g := range chosen {
		for _, x := range g.rows {
			r.Rows = append(r.Rows, x.line(g.name, s))
		}
	}
	return r
}

// system describes the machine: processor, kernel, Go.
func system() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(info), "model name\t: "); ok {
			model, _, _ = strings.Cut(rest, "\n")
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, Linux %s, %s", model, strings.TrimSpace(string(kernel)), runtime.Version())
}

// line returns the table's line for a row.
func (x row) line(group string, s samples) line {
	l := line{Group: group, Name: x.name, Unit: x.unit, Against: x.what, Bar: x.bar, AtMost: x.atMost, Figure: median(s[x.value])}
	if l.Server, l.Client = s.cpu(x); l.Server+l.Client > 0 {
		l.CPUUnit = cpuUnit(x.value)
	}
	compared, ok := l.Figure, len(s[x.value]) > 0
	if x.against != "" {
		l.Share, ok = s.share(x.value, x.against)
		compared = l.Share
	}
	switch {
	case !ok:
		l.State = stateMissing
	case x.bar == 0:
	case x.atMost && compared <= x.bar, !x.atMost && compared >= x.bar:
		l.State = stateMet
	default:
		l.State = stateNotMet
	}
	return l
}

// table formats the result.
func (r *result) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.conditions)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tfigure\t\tshare\tof\tbar\t\tserver CPU\tclient CPU\t")
	for _, l := range r.Rows {
		share := ""
		if l.Against != "" && l.State != stateMissing {
			share = fmt.Sprintf("%.2f", l.Share)
		}
		cpu := "\t\t"
		if l.CPUUnit != "" {
			cpu = number(l.Server) + "\t" + number(l.Client) + "\t" + l.CPUUnit
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, number(l.Figure), l.Unit, share, l.Against, l.bar(), l.State, cpu)
	}
	_ = w.Flush() // to memory
	return b.String()
}

// bar formats the bar.
func (l line) bar() string {
	switch {
	case l.Bar == 0:
		return ""
	case l.AtMost:
		return "≤ " + number(l.Bar)
	}
	return "≥ " + number(l.Bar)
}

// number formats with at least three digits: 1.25, 12.5, 1250.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// write writes table.txt, figures.json and a NAME.svg per graph into dir.
func (r *result) write(dir string) error { return writeFiles(dir, r, r.table(), r.Graphs) }

// writeFiles writes the result into dir, which it creates if it is missing.
func writeFiles(dir string, found any, table string, graphs []chart) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	figures, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	put := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) }
	errs := []error{put("table.txt", table), put("figures.json", string(figures)+"\n")}
	for _, c := range graphs {
		errs = append(errs, put(c.Name+".svg", c.svg()))
	}
	return errors.Join(errs...)
}
