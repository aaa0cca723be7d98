// The reference page of metrics, generated from those registered by a server.

package reference

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
)

func writeMetrics(w *writer, _ *module, _ Programs) error {
	list, err := program.Metrics()
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b program.Metric) int { return cmp.Compare(a.Name, b.Name) })
	w.line("`nfsrdmad serve --metrics-addr ADDR:PORT` serves them at `/metrics`. A metric without a value yet is left out.")
	w.line("The metrics `go_…` and `process_…` of Prometheus's Go client are there as well.")
	w.table("Metric", "Type", "Labels", "Meaning")
	for _, m := range list {
		w.row(code(m.Name), m.Type, codes(m.Labels), prose(m.Help))
	}
	w.line("\n## Reasons\n\nThe values of the label `reason`.")
	w.table("Metric", "Reasons")
	reasons := program.Reasons()
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		w.row(code(name), codes(reasons[name]))
	}
	return nil
}
