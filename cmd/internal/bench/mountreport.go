// The results of a mount's measurement, as a table and as JSON.

package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// A MountReport is a run's JSON form.
type MountReport struct {
	Target    string     `json:"target"`            // the URL
	Transport string     `json:"transport"`         // rdma, tcp or auto
	CRC       string     `json:"crc,omitempty"`     // of RDMA: on, off, auto or strict
	Conns     int        `json:"conns"`             // the mount's connections
	CPUs      int        `json:"cpus"`              // this machine's processors
	Rounds    int        `json:"rounds"`            // measurements per row
	Depth     int        `json:"library_depth"`     // concurrent library calls
	Size      int64      `json:"size_bytes"`        // of the large file
	Files     int        `json:"files"`             // small files
	Verified  int64      `json:"verified_bytes"`    // bytes that were compared one by one
	Data      []*DataRow `json:"data"`              // bytes through the mount
	Pairs     []*PairRow `json:"pairs"`             // the mount beside a local file system
	Skipped   []string   `json:"skipped,omitempty"` // why rows are missing
}

// A Figure has the rounds' results for one number.
type Figure struct {
	Median float64   `json:"median"` // of the rounds
	Values []float64 `json:"values"` // for the rounds, in order
}

func (f *Figure) add(v float64) {
	f.Values = append(f.Values, v)
	sorted := slices.Sorted(slices.Values(f.Values))
	n := len(sorted)
	f.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread formats the median with the least and the largest value.
func (f *Figure) spread(format string) string {
	if len(f.Values) == 0 {
		return ""
	}
	return fmt.Sprintf(format+" ("+format+"…"+format+")", f.Median, slices.Min(f.Values), slices.Max(f.Values))
}

// A DataRow is data through the mount. Its limit is the client library's cost plus FUSE's, because
// both use the same CPUs. So it is 1/(1/Library + 1/Null).
type DataRow struct {
	Name    string  `json:"name"`    // of the row
	Unit    string  `json:"unit"`    // of its figures
	Library Figure  `json:"library"` // the client library alone
	Null    Figure  `json:"null"`    // FUSE alone
	Limit   float64 `json:"limit"`   // of the mount: library and FUSE, one after the other
	Mount   Figure  `json:"mount"`   // the mount
	Share   float64 `json:"share"`   // of the limit
}

func (r *DataRow) compare() {
	r.Limit = 1 / (1/r.Library.Median + 1/r.Null.Median)
	r.Share = r.Mount.Median / r.Limit
}

// A PairRow compares the mount with a local file system.
type PairRow struct {
	Name   string  `json:"name"`   // of the row
	Unit   string  `json:"unit"`   // of its figures
	Mount  Figure  `json:"mount"`  // the mount
	Beside string  `json:"beside"` // the other file system
	Other  Figure  `json:"other"`  // the other file system
	Ratio  float64 `json:"ratio"`  // Mount/Other
}

func (r *PairRow) compare() { r.Ratio = r.Mount.Median / r.Other.Median }

// Table writes the report for people.
func (r *MountReport) Table(w io.Writer) error {
	crc := ""
	if r.CRC != "" {
		crc = ", CRC " + r.CRC
	}
	fmt.Fprintf(w, "%s over %s%s, %s, %s; medians of %s (least…most)\n\n", r.Target, r.Transport, crc,
		text.Plural(int64(r.Conns), "connection"), text.Plural(int64(r.CPUs), "CPU"), text.Plural(int64(r.Rounds), "round"))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "file of %s\t\tclient library\tFUSE alone\tlimit of both\tmount\tof limit\t\n", text.Size(uint64(r.Size)))
	for _, d := range r.Data {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.0f\t%s\t%.0f%%\t\n", d.Name, d.Unit, d.Library.spread("%.0f"), d.Null.spread("%.0f"),
			d.Limit, d.Mount.spread("%.0f"), 100*d.Share)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprintf(tw, "\t\tmount\tbeside it\t\tratio\t\n")
	for _, p := range r.Pairs {
		format := "%.0f"
		if p.Unit == "s" {
			format = "%.2f"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%.2f\t\n", p.Name, p.Unit, p.Mount.spread(format), p.Other.spread(format), p.Beside, p.Ratio)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, line := range r.Skipped {
		fmt.Fprintf(w, "not measured: %s\n", line)
	}
	_, err := fmt.Fprintf(w, "\nverified: %s byte by byte, the rest by its stamps\n", text.Size(uint64(r.Verified)))
	return err
}
