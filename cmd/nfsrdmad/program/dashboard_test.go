// The dashboard and the alerts in deploy: a running server has every metric, label and status that
// they name.

package program

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An exposition is a server's metrics: for each metric its labels, and for each label its values.
type exposition map[string]map[string]map[string]bool

var (
	expositionLine  = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? \S+$`)
	expositionLabel = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
)

// readExposition parses the text of /metrics and adds Prometheus' own data: the targets and their
// labels.
func readExposition(text string) exposition {
	all := exposition{"up": {}}
	for _, m := range expositionLine.FindAllStringSubmatch(text, -1) {
		if all[m[1]] == nil {
			all[m[1]] = map[string]map[string]bool{}
		}
		for _, l := range expositionLabel.FindAllStringSubmatch(m[2], -1) {
			if all[m[1]][l[1]] == nil {
				all[m[1]][l[1]] = map[string]bool{}
			}
			all[m[1]][l[1]][l[2]] = true
		}
	}
	for _, labels := range all {
		labels["job"], labels["instance"] = map[string]bool{"nfsrdma": true}, map[string]bool{}
		// add all statuses, because most do not occur under a small load
		if labels["status"] != nil {
			for n := range nfs3.Status(10100) {
				labels["status"][n.String()] = true
			}
		}
	}
	return all
}

// A promQuery has the names that occur in a PromQL expression.
type promQuery struct {
	metrics  []string
	matchers []promMatcher
	by       []string // labels after by: the only labels in the results
}

// A promMatcher is the condition on one label in a metric's braces.
type promMatcher struct{ metric, label, op, value string }

// promToken matches a string, a range, a number, a name, an operator of matchers or another
// character.
var promToken = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]|[0-9.]+|[a-zA-Z_][a-zA-Z0-9_:]*|[!=]~|!=|==|\S`)

// parsePromQL finds names in an expression: before a parenthesis functions, in the parentheses
// after by labels, in braces also labels, all others metrics.
func parsePromQL(expr string) (q promQuery) {
	words := append(promToken.FindAllString(expr, -1), "", "", "")
	for i := 0; words[i] != ""; i++ {
		switch w := words[i]; {
		case w == "by":
			for i++; words[i] != ")" && words[i] != ""; i++ {
				if isName(words[i]) {
					q.by = append(q.by, words[i])
				}
			}
		case w == "{":
			for ; words[i] != "}" && words[i] != ""; i++ {
				if isName(words[i]) {
					q.matchers = append(q.matchers, promMatcher{q.metrics[len(q.metrics)-1], words[i], words[i+1], strings.Trim(words[i+2], `"`)})
				}
			}
		case isName(w) && words[i+1] != "(" && words[i+1] != "by":
			q.metrics = append(q.metrics, w)
		}
	}
	return q
}

func isName(word string) bool { return regexp.MustCompile(`^[a-zA-Z_]`).MatchString(word) }

// check returns those names in the expression that do not exist. shown lists the labels used in its
// legend or message.
func (all exposition) check(expr string, shown []string) (wrong []string) {
	q := parsePromQL(expr)
	if len(q.metrics) == 0 {
		return []string{"no metric"}
	}
	for _, m := range q.metrics {
		if all[m] == nil {
			wrong = append(wrong, "no metric "+m)
			continue
		}
		for _, l := range slices.Concat(q.by, shown) {
			if all[m][l] == nil {
				wrong = append(wrong, m+" has no label "+l)
			}
		}
	}
	for _, l := range shown { // an aggregation keeps only the labels after by
		if regexp.MustCompile(`\b(sum|max|min|avg|count)\b`).MatchString(expr) && !slices.Contains(q.by, l) {
			wrong = append(wrong, "the result has no label "+l)
		}
	}
	for _, m := range q.matchers {
		values := all[m.metric][m.label]
		if values == nil {
			wrong = append(wrong, m.metric+" has no label "+m.label)
			continue
		}
		for v := range strings.SplitSeq(m.value, "|") {
			if !strings.HasPrefix(v, "$") && !values[v] {
				wrong = append(wrong, m.metric+": "+m.label+" is never "+v)
			}
		}
	}
	return wrong
}

// A promUse is an expression in a file, with the labels that the text of the results shows.
type promUse struct {
	where, expr string
	shown       []string
}

var templateLabel = regexp.MustCompile(`\{\{ *(?:\$labels\.)?([a-z_]+) *\}\}`)

func labelsOf(text string) (labels []string) {
	for _, m := range templateLabel.FindAllStringSubmatch(text, -1) {
		labels = append(labels, m[1])
	}
	return labels
}

// dashboardUses returns the expressions in the dashboard, including those of its variables.
func dashboardUses(t *testing.T) (uses []promUse) {
	t.Helper()
	b, err := os.ReadFile("../../../deploy/grafana-nfsrdma.json")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct {
				Name       string
				Definition string
			}
		}
	}
	must.Succeed(t, json.Unmarshal(b, &d))
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			uses = append(uses, promUse{p.Title, target.Expr, labelsOf(target.LegendFormat)})
		}
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			uses = append(uses, promUse{"$" + v.Name, m[1], []string{m[2]}})
		}
	}
	return uses
}

// alertUses returns the expressions in the alerts; each must stand on one line.
func alertUses(t *testing.T) (uses []promUse) {
	t.Helper()
	b, err := os.ReadFile("../../../deploy/prometheus-alerts.yml")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for _, alert := range strings.Split(string(b), "- alert: ")[1:] {
		name, rest, _ := strings.Cut(alert, "\n")
		use := promUse{where: name, shown: labelsOf(alert)}
		for line := range strings.Lines(rest) {
			if expr, ok := strings.CutPrefix(strings.TrimSpace(line), "expr: "); ok {
				use.expr = expr
			}
		}
		uses = append(uses, use)
	}
	return uses
}

// TestDashboardAndAlerts: all metrics in them exist on a server under a small load, and the
// dashboard shows every metric of the server.
func TestDashboardAndAlerts(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	addr, _ := servedFigures(t, ctx)
	text := scrape(addr)
	checkTypes(t, text)
	all := readExposition(text)
	dashboard, alerts := dashboardUses(t), alertUses(t)
	if len(dashboard) < 20 || len(alerts) < 5 {
		t.Errorf("%d expressions in the dashboard, %d in the alerts", len(dashboard), len(alerts))
	}
	for _, use := range append(dashboard, alerts...) {
		for _, wrong := range all.check(use.expr, use.shown) {
			t.Errorf("%s: %s: %s", use.where, wrong, use.expr)
		}
	}
	used := map[string]bool{
		// Quantiles come from a histogram's buckets, so the dashboard does not show sum and count.
		// The last two metrics say little over time.
		"nfsrdma_call_duration_seconds_sum": true, "nfsrdma_call_duration_seconds_count": true,
		"nfsrdma_connection_oldest_age_seconds": true, "nfsrdma_duplicate_cache_replies": true,
	}
	for _, use := range dashboard {
		for _, m := range parsePromQL(use.expr).metrics {
			used[m] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, namespace+"_") && !used[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// checkTypes compares a server's metrics with the documented ones.
func checkTypes(t *testing.T, exposed string) {
	t.Helper()
	list, err := Metrics()
	if err != nil {
		t.Fatalf("Metrics: %v", err)
	}
	want := map[string]string{}
	for _, m := range list {
		want[m.Name] = m.Type
	}
	found := regexp.MustCompile(`(?m)^# TYPE (`+namespace+`_\w+) (\w+)$`).FindAllStringSubmatch(exposed, -1)
	if len(found) < 20 {
		t.Errorf("%d metrics, want at least 20", len(found))
	}
	for name, reasons := range Reasons() {
		for _, reason := range reasons {
			if sample := name + `{reason="` + reason + `"} `; !strings.Contains(exposed, sample) {
				t.Errorf("there is no %s", sample)
			}
		}
	}
	for _, m := range found {
		if want[m[1]] != m[2] {
			t.Errorf("%s is a %s, listed as %q", m[1], m[2], want[m[1]])
		}
	}
}

// TestDashboardCheckFindsMistakes: wrong names in an expression are found.
func TestDashboardCheckFindsMistakes(t *testing.T) {
	all := readExposition("a_total{x=\"1\",y=\"2\"} 3\nb_total{x=\"1\"} 3\nc 1e-05\n")
	for _, c := range []struct {
		expr  string
		shown []string
		wrong string
	}{
		{`sum by (x) (rate(a_total{y="2",x=~"1|$v"}[5m])) / sum by (x) (b_total) > 0.5`, []string{"x"}, ""},
		{`c`, []string{"instance"}, ""}, {`up{job="nfsrdma"} == 0`, nil, ""},
		{`rate(d_total[5m])`, nil, "no metric d_total"},
		{`sum by (x, y) (b_total)`, nil, "b_total has no label y"},
		{`a_total{z="2"}`, nil, "a_total has no label z"},
		{`a_total{x=~"1|2"}`, nil, "a_total: x is never 2"},
		{`sum by (x) (a_total)`, []string{"y"}, "the result has no label y"},
		{`c`, []string{"x"}, "c has no label x"},
		{`rate(5)`, nil, "no metric"},
	} {
		if got := strings.Join(all.check(c.expr, c.shown), "; "); got != c.wrong {
			t.Errorf("%s: %q, want %q", c.expr, got, c.wrong)
		}
	}
}
