// The list of metrics, for the documentation.

package program

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/prometheus/client_golang/prometheus"
)

// A Metric is one metric at --metrics-addr.
type Metric struct {
	Name, Type, Help string
	Labels           []string
}

// descText parses a description's text, because prometheus.Desc has no accessors.
var descText = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)

// Metrics lists the registered metrics in any order, except those about Go and the process.
func Metrics() (list []Metric, err error) {
	m := newMetrics(nil)
	m.watch(nil, nil, nil, nil)
	all := make(chan *prometheus.Desc)
	go func() {
		m.registry.Describe(all)
		close(all)
	}()
	for d := range all {
		if !strings.HasPrefix(d.String(), `Desc{fqName: "`+namespace+"_") {
			continue
		}
		parts := descText.FindStringSubmatch(d.String())
		if parts == nil {
			err = fmt.Errorf("a description that cannot be read: %s", d)
			continue
		}
		name, _ := strconv.Unquote(parts[1])
		help, _ := strconv.Unquote(parts[2])
		list = append(list, Metric{name, metricType(name), help, strings.FieldsFunc(parts[3], func(r rune) bool { return r == ',' || r == ' ' })})
	}
	return list, err
}

// Reasons lists the values for the label reason, by metric.
func Reasons() map[string][]string {
	refusals := []string{exportClient, exportPort, exportFlavor, exportChannel, exportCertificate}
	for _, r := range transport.NewServer(transport.ServerConfig{}).Figures().Refused {
		refusals = append(refusals, r.Reason)
	}
	var drops []string
	for _, d := range roce.Drops() {
		drops = append(drops, d.Reason)
	}
	var failures []string
	for _, r := range gss.Reasons() {
		failures = append(failures, r.String())
	}
	return map[string][]string{namespace + "_refusals_total": refusals, namespace + "_roce_dropped_packets_total": drops, namespace + "_gss_failures_total": failures}
}

// metricType derives a metric's type from its name, by Prometheus's conventions.
func metricType(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}
