// The result of comparing two trees: ratios of the rounds, as a table and as JSON.

package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// A comparison is the JSON form of a run with -against.
type comparison struct {
	conditions
	Against string     `json:"against"`
	Rows    []compared `json:"rows"`
	This    samples    `json:"samples_this"`
	Other   samples    `json:"samples_other"`
}

// A compared is a row for both sides, with medians of the rounds.
type compared struct {
	Group   string `json:"group"`
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	This    pair   `json:"this"`
	Other   pair   `json:"other"`
	Ratio   spread `json:"ratio"` // this to the other in the same round
	CPUUnit string `json:"cpu_unit"`
	Missing string `json:"missing,omitempty"` // why there is no ratio
}

// A pair has one side's figure, and the CPU time of the side's two ends.
type pair struct {
	Figure float64 `json:"figure"`
	Server float64 `json:"server_cpu"`
	Client float64 `json:"client_cpu"`
}

// A spread is the median of some figures with their quartiles.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"quartile_1"`
	High   float64 `json:"quartile_3"`
}

// spreadOf interpolates between the figures next to a quartile.
func spreadOf(v []float64) spread {
	if len(v) == 0 {
		return spread{}
	}
	v = slices.Sorted(slices.Values(v))
	at := func(share float64) float64 {
		place := share * float64(len(v)-1)
		i := int(place)
		next := min(i+1, len(v)-1)
		return v[i] + (place-float64(i))*(v[next]-v[i])
	}
	return spread{at(0.5), at(0.25), at(0.75)}
}

// ratios returns a/b for each round.
func ratios(a, b []float64) (of []float64) {
	for i := range min(len(a), len(b)) {
		if a[i] > 0 && b[i] > 0 {
			of = append(of, a[i]/b[i])
		}
	}
	return of
}

// pair returns one side's figures of a row.
func (s samples) pair(r row) pair {
	server, client := s.cpu(r)
	return pair{median(s[r.value]), server, client}
}

// cpu returns the CPU time of both ends per call or GiB, in the unit of cpuUnit.
func (s samples) cpu(r row) (server, client float64) {
	key := cpuKey(r.value)
	return median(s[key+"/cpu"]), median(s[key+"/clientcpu"])
}

// cpuKey returns the key with the CPU time for a row's figure.
func cpuKey(value string) string {
	for _, of := range []string{"/us", "/p50", "/p99"} {
		value = strings.TrimSuffix(value, of)
	}
	return value
}

func newComparison(c config, chosen []contest, sides [2]*side, failed map[string]string) *comparison {
	r := &comparison{conditions: newConditions(c), Against: c.against, This: sides[0].samples, Other: sides[1].samples}
	for _, ct := range chosen {
		for _, x := range ct.rows() {
			of := ratios(r.This[x.value], r.Other[x.value])
			l := compared{Group: ct.group, Name: x.name, Unit: x.unit, This: r.This.pair(x), Other: r.Other.pair(x), Ratio: spreadOf(of),
				CPUUnit: cpuUnit(x.value), Missing: failed[ct.group+ct.name]}
			if x.unit == "s" {
				l.CPUUnit = "ms"
			}
			if len(of) == 0 && l.Missing == "" {
				l.Missing = "a side has no figure"
			}
			r.Rows = append(r.Rows, l)
		}
	}
	return r
}

// table formats the comparison.
func (r *comparison) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sthis tree against %s; a ratio is this/other (of µs and s, less is better), the median of the rounds with its quartiles\n\n", r.conditions, r.Against)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tthis\tother\t\tratio\tquartiles\tserver CPU\tother\tclient CPU\tother\t")
	for _, l := range r.Rows {
		if l.Missing != "" {
			fmt.Fprintf(w, "%s\tnot measured: %s\n", l.Name, l.Missing)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.3f\t%.3f…%.3f\t%s\t%s\t%s\t%s\t%s\n", l.Name, number(l.This.Figure), number(l.Other.Figure), l.Unit,
			l.Ratio.Median, l.Ratio.Low, l.Ratio.High, number(l.This.Server), number(l.Other.Server), number(l.This.Client), number(l.Other.Client), l.CPUUnit)
	}
	_ = w.Flush() // to memory
	return b.String()
}

// write writes table.txt and figures.json into dir.
func (r *comparison) write(dir string) error { return writeFiles(dir, r, r.table(), nil) }
