// Figures of the server for Prometheus: connections, calls by procedure, memory, and the build.

package main

import (
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net/http"
	"runtime"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts what a server tells of. It implements transport.Observer.
type metrics struct {
	// Set once.
	registry *prometheus.Registry
	conns    [2]prometheus.Gauge // by transport, as all that follows: TCP, RDMA
	accepted [2]prometheus.Counter
	calls    map[callKey]*callFigures
	errors   *prometheus.CounterVec
}

// A callKey is a procedure on a transport.
type callKey struct {
	program, proc string
	rdma          bool
}

// callFigures are the figures of one procedure, looked up beforehand.
type callFigures struct {
	count, in, out prometheus.Counter
	took           prometheus.Observer
}

// namespace is the first word of the names of all figures but those of Go and of the process.
const namespace = "nfsrdma"

// durations are the upper ends of the classes of times, in seconds.
var durations = prometheus.ExponentialBuckets(10e-6, 4, 10)

// newMetrics returns the figures of a server of the programs, all zero. Names and units are
// those of Prometheus's conventions: base units, _total on what only grows.
func newMetrics(programs []*transport.Program) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), calls: map[callKey]*callFigures{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	labels := []string{"transport", "program", "procedure"}
	conns := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "connections", Help: "Connections that there are."}, labels[:1])
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "call_duration_seconds",
		Help: "Time that procedures ran, without the network.", Buckets: durations}, labels)
	m.registry.MustRegister(conns, took, buildInfo(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	accepted := counter("connections_accepted_total", "Connections that there have been.", labels[:1]...)
	count := counter("calls_total", "Calls by procedure, those that were refused included.", labels...)
	in := counter("argument_bytes_total", "Bytes of arguments, data included.", labels...)
	out := counter("result_bytes_total", "Bytes of results, data included.", labels...)
	m.errors = counter("call_errors_total", "Calls that were refused, by status of NFS, MOUNT or RPC.", append(labels, "status")...)
	for i, via := range []string{"tcp", "rdma"} {
		m.conns[i], m.accepted[i] = conns.WithLabelValues(via), accepted.WithLabelValues(via)
		for _, p := range programs {
			for _, proc := range p.Procs {
				m.calls[callKey{p.Name, proc.Name, i == 1}] = &callFigures{
					count: count.WithLabelValues(via, p.Name, proc.Name),
					in:    in.WithLabelValues(via, p.Name, proc.Name),
					out:   out.WithLabelValues(via, p.Name, proc.Name),
					took:  took.WithLabelValues(via, p.Name, proc.Name),
				}
			}
		}
	}
	return m
}

// buildInfo is what the program was built from, as labels of a gauge that is always 1.
func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info",
		Help: "What the program was built from; always 1."}, []string{"version", "revision", "goversion"})
	version, revision := cli.Build()
	g.WithLabelValues(version, revision, runtime.Version()).Set(1)
	return g
}

// watchBudgets adds the memory budgets, read whenever the figures are asked for.
func (m *metrics) watchBudgets(budgets func() []transport.BudgetUse) {
	m.registry.MustRegister(budgetFigures{budgets})
}

// budgetFigures is the memory budgets as two gauges each.
type budgetFigures struct{ budgets func() []transport.BudgetUse }

var (
	budgetMost = prometheus.NewDesc(namespace+"_budget_bytes", "Bytes of data under way that there may be at once, by budget.", []string{"budget"}, nil)
	budgetUsed = prometheus.NewDesc(namespace+"_budget_used_bytes", "Bytes of data under way, by budget.", []string{"budget"}, nil)
)

// Describe implements prometheus.Collector.
func (b budgetFigures) Describe(ch chan<- *prometheus.Desc) {
	ch <- budgetMost
	ch <- budgetUsed
}

// Collect implements prometheus.Collector.
func (b budgetFigures) Collect(ch chan<- prometheus.Metric) {
	for _, u := range b.budgets() {
		ch <- prometheus.MustNewConstMetric(budgetMost, prometheus.GaugeValue, float64(u.Max), u.Name)
		ch <- prometheus.MustNewConstMetric(budgetUsed, prometheus.GaugeValue, float64(u.Used), u.Name)
	}
}

// via is the index of a transport, and its name.
func via(rdma bool) (int, string) {
	if rdma {
		return 1, "rdma"
	}
	return 0, "tcp"
}

// Connection implements transport.Observer.
func (m *metrics) Connection(rdma bool, delta int) {
	i, _ := via(rdma)
	m.conns[i].Add(float64(delta))
	if delta > 0 {
		m.accepted[i].Add(float64(delta))
	}
}

// Call implements transport.Observer.
func (m *metrics) Call(s transport.CallStats) {
	f := m.calls[callKey{s.Program.Name, s.Proc.Name, s.RDMA}]
	if f == nil {
		return
	}
	f.count.Inc()
	f.in.Add(float64(s.In))
	f.out.Add(float64(s.Out))
	f.took.Observe(s.Took.Seconds())
	if status := callStatus(&s); status != "" {
		_, name := via(s.RDMA)
		m.errors.WithLabelValues(name, s.Program.Name, s.Proc.Name, status).Inc()
	}
}

// callStatus is the name of the status that refuses a call; "" when it did well.
// All results of NFS, and those of MNT, begin with it.
func callStatus(s *transport.CallStats) string {
	if s.Err != nil {
		return rpcStatus(s.Err)
	}
	if len(s.Results) < 4 {
		return ""
	}
	status := binary.BigEndian.Uint32(s.Results)
	switch {
	case status == 0:
	case s.Program.Number == nfs3.Program:
		return nfs3.Status(status).String()
	case s.Proc.Name == "MNT":
		return mount3.Status(status).String()
	}
	return ""
}

// rpcStatus is the name of the status of ONC RPC (RFC 5531 §9) that an error of a procedure becomes.
func rpcStatus(err error) string {
	var auth *transport.AuthError
	switch {
	case errors.Is(err, transport.ErrGarbageArgs):
		return "GARBAGE_ARGS"
	case errors.As(err, &auth):
		return "AUTH_ERROR"
	}
	return "SYSTEM_ERR"
}

// serve gives the figures out over HTTP until end is called.
func (m *metrics) serve(addr string) (end func() error, err error) {
	l, err := transport.Listen(addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	scrapes := limitScrapes(l)
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
		IdleTimeout: scrapeIdle, ConnState: scrapes.state,
		ErrorLog: log.New(io.Discard, "", 0)} // what its peers do wrong is theirs to know
	go server.Serve(scrapes)
	return server.Close, nil
}
