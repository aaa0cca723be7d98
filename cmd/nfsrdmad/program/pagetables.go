// The tables on the page of metrics, and how they are filled.

package program

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/figures"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// A pageTable is one table on the page: a row per combination of label values, a column per metric.
type pageTable struct {
	ID      string       `json:"id"`
	Title   string       `json:"-"`
	Keys    []string     `json:"-"` // headers of the labels
	Columns []pageColumn `json:"columns"`
	Rows    []pageRow    `json:"rows"`

	labels []string
	used   bool // shows only rows with a nonzero first value
}

// A pageColumn is one metric, summed over the labels that the table does not name.
type pageColumn struct {
	Title string `json:"-"`
	Kind  string `json:"kind"` // counter, gauge, p50 or p99
	Unit  string `json:"unit"` // "", bytes or seconds
	Chart string `json:"chart,omitempty"`

	name string // without the namespace, except the process's
}

// Live returns the header of the column with the change since the page's last request, or "".
func (c pageColumn) Live() string {
	switch c.Kind {
	case "counter":
		return c.Title + " per second"
	case "gauge":
		return ""
	}
	return c.Title + " now"
}

// A pageRow is one row; missing values are nil.
type pageRow struct {
	Keys  []string    `json:"keys"`
	Cells []*pageCell `json:"cells"`
}

// A pageCell is one value: for a histogram the quantile since the start, and its classes for
// shorter intervals.
type pageCell struct {
	Text    string          `json:"text"`
	Value   float64         `json:"value"`
	Classes []figures.Class `json:"classes,omitempty"`
}

// pageTables returns the tables without rows, in page order.
func pageTables() []pageTable {
	procedure := []string{"program", "procedure", "transport"}
	operation := []string{"Program", "Operation", "Transport"}
	return []pageTable{
		{ID: "calls", Title: "Calls", Keys: operation, labels: procedure, used: true, Columns: []pageColumn{
			{Title: "Calls", Kind: "counter", Chart: "Calls per second", name: "calls_total"},
			{Title: "p50", Kind: "p50", Unit: "seconds", Chart: "Half of the calls take at most (p50)", name: "call_duration_seconds"},
			{Title: "p99", Kind: "p99", Unit: "seconds", Chart: "99 of 100 calls take at most (p99)", name: "call_duration_seconds"},
			{Title: "In", Kind: "counter", Unit: "bytes", Chart: "Bytes in", name: "argument_bytes_total"},
			{Title: "Out", Kind: "counter", Unit: "bytes", Chart: "Bytes out", name: "result_bytes_total"},
			{Title: "Errors", Kind: "counter", name: "call_errors_total"}}},
		{ID: "errors", Title: "Errors", Keys: append(slices.Clone(operation), "Status"), labels: append(slices.Clone(procedure), "status"), Columns: []pageColumn{
			{Title: "Errors", Kind: "counter", Chart: "Errors per second", name: "call_errors_total"}}},
		{ID: "chunks", Title: "Calls over RDMA by chunk lists", Keys: []string{"Chunks"}, labels: []string{"chunks"}, Columns: []pageColumn{
			{Title: "Calls", Kind: "counter", name: "rdma_calls_total"}}},
		{ID: "connections", Title: "Connections", Keys: []string{"Transport", "RDMA"}, labels: []string{"transport", "rdma"}, Columns: []pageColumn{
			{Title: "Connections", Kind: "gauge", Chart: "Connections", name: "connections"},
			{Title: "Oldest", Kind: "gauge", Unit: "seconds", name: "connection_oldest_age_seconds"}}},
		{ID: "accepted", Title: "Connections so far", Keys: []string{"Transport"}, labels: []string{"transport"}, Columns: []pageColumn{
			{Title: "Accepted", Kind: "counter", name: "connections_accepted_total"}}},
		{ID: "credits", Title: "Credits", Keys: []string{"RDMA"}, labels: []string{"rdma"}, Columns: []pageColumn{
			{Title: "Granted", Kind: "gauge", name: "credits_granted"},
			{Title: "Used", Kind: "gauge", Chart: "Credits used", name: "credits_used"}}},
		{ID: "memory", Title: "Memory for data under way", Keys: []string{"Budget"}, labels: []string{"budget"}, Columns: []pageColumn{
			{Title: "Size", Kind: "gauge", Unit: "bytes", name: "budget_bytes"},
			{Title: "Used", Kind: "gauge", Unit: "bytes", Chart: "Memory used", name: "budget_used_bytes"},
			{Title: "Connections waiting", Kind: "gauge", name: "budget_waiting_connections"},
			{Title: "Waits", Kind: "counter", name: "budget_waits_total"}}},
		{ID: "locks", Title: "Locks", Columns: []pageColumn{
			{Title: "Held", Kind: "gauge", Chart: "Locks held", name: "locks_held"},
			{Title: "Waiting", Kind: "gauge", Chart: "Requests for locks that wait", name: "locks_waiting"},
			{Title: "Files", Kind: "gauge", name: "lock_files"},
			{Title: "Clients", Kind: "gauge", name: "lock_clients"},
			{Title: "Lost", Kind: "counter", name: "locks_lost_total"},
			{Title: "Grace left", Kind: "gauge", Unit: "seconds", name: "lock_grace_seconds"}}},
		{ID: "requests", Title: "Requests for locks", Keys: []string{"Result"}, labels: []string{"result"}, Columns: []pageColumn{
			{Title: "Requests", Kind: "counter", name: "lock_requests_total"}}},
		{ID: "refusals", Title: "Refusals", Keys: []string{"Reason"}, labels: []string{"reason"}, Columns: []pageColumn{
			{Title: "Refusals", Kind: "counter", Chart: "Refusals per second", name: "refusals_total"}}},
		{ID: "repeats", Title: "Calls that came again", Keys: []string{"Outcome"}, labels: []string{"outcome"}, Columns: []pageColumn{
			{Title: "Calls", Kind: "counter", name: "duplicate_calls_total"}}},
		{ID: "replies", Title: "Replies kept for them", Columns: []pageColumn{
			{Title: "Replies", Kind: "gauge", name: "duplicate_cache_replies"},
			{Title: "Memory", Kind: "gauge", Unit: "bytes", name: "duplicate_cache_bytes"}}},
		{ID: "drops", Title: "Packets dropped by RoCE", Keys: []string{"Reason"}, labels: []string{"reason"}, Columns: []pageColumn{
			{Title: "Packets", Kind: "counter", Chart: "Dropped packets per second", name: "roce_dropped_packets_total"}}},
		{ID: "again", Title: "Repetitions of RoCE", Columns: []pageColumn{
			{Title: "Retransmissions", Kind: "counter", name: "roce_retransmissions_total"}}},
		{ID: "exports", Title: "Exports", Columns: []pageColumn{
			{Title: "Exports", Kind: "gauge", name: "exports"},
			{Title: "Mounts", Kind: "gauge", name: "mounts"}}},
		{ID: "process", Title: "Process", Columns: []pageColumn{
			{Title: "Processor time", Kind: "counter", Unit: "seconds", Chart: "Processors used", name: "process_cpu_seconds_total"},
			{Title: "Memory", Kind: "gauge", Unit: "bytes", name: "process_resident_memory_bytes"},
			{Title: "Descriptors", Kind: "gauge", name: "process_open_fds"},
			{Title: "Goroutines", Kind: "gauge", name: "go_goroutines"}}},
	}
}

// samples returns all metrics by name.
func (m *metrics) samples() (figures.Set, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, err
	}
	all := make(figures.Set, len(families))
	for _, f := range families {
		for _, v := range f.GetMetric() {
			// a metric is a counter or a gauge; the other value is 0
			s := figures.Sample{Labels: map[string]string{}, Value: v.GetCounter().GetValue() + v.GetGauge().GetValue()}
			for _, l := range v.GetLabel() {
				s.Labels[l.GetName()] = l.GetValue()
			}
			if h := v.GetHistogram(); h != nil {
				for _, b := range h.GetBucket() {
					s.Classes = append(s.Classes, figures.Class{Seconds: b.GetUpperBound(), Calls: float64(b.GetCumulativeCount())})
				}
				s.Classes = append(s.Classes, figures.Class{Calls: float64(h.GetSampleCount())})
				s.Value = h.GetSampleSum()
			}
			all[f.GetName()] = append(all[f.GetName()], s)
		}
	}
	return all, nil
}

// fill builds the rows: one for each set of label values in all, in order. With used set, it leaves
// out rows whose first column is 0.
func (t *pageTable) fill(all figures.Set) {
	rows := map[string]*pageRow{}
	for i, c := range t.Columns {
		name := c.name
		if all[name] == nil {
			name = namespace + "_" + name
		}
		for _, s := range all[name] {
			keys := make([]string, len(t.labels))
			for j, l := range t.labels {
				keys[j] = s.Labels[l]
			}
			id := strings.Join(keys, " ")
			row := rows[id]
			if row == nil {
				row = &pageRow{keys, make([]*pageCell, len(t.Columns))}
				rows[id] = row
			}
			if row.Cells[i] == nil {
				row.Cells[i] = &pageCell{}
			}
			row.Cells[i].Value += s.Value
			row.Cells[i].Classes = s.Classes
		}
	}
	t.Rows = []pageRow{} // JSON then has an empty list instead of null
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if first := rows[id].Cells[0]; !t.used || first != nil && first.Value > 0 {
			t.Rows = append(t.Rows, *rows[id])
		}
	}
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			if c != nil {
				c.finish(&t.Columns[i])
			}
		}
	}
}

// finish formats the value; for a histogram the quantile.
func (c *pageCell) finish(of *pageColumn) {
	switch of.Kind {
	case "p50":
		c.Value = figures.Quantile(c.Classes, 0.5)
	case "p99":
		c.Value = figures.Quantile(c.Classes, 0.99)
	}
	switch of.Unit {
	case "bytes":
		c.Text = text.Size(uint64(c.Value))
	case "seconds":
		c.Text = formatSeconds(c.Value)
	default:
		c.Text = fmt.Sprintf("%.0f", c.Value)
	}
}

// formatSeconds formats seconds with three digits.
func formatSeconds(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Nanosecond
	for d/unit >= 1000 && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit).String()
}
