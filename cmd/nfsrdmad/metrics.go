// Figures of the server for Prometheus: connections, and calls by procedure.

package main

import (
	"encoding/binary"
	"net"
	"net/http"
	"time"

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

// durations are the upper ends of the classes of times, in seconds.
var durations = prometheus.ExponentialBuckets(10e-6, 4, 10)

// newMetrics returns the figures of a server of the programs, all zero.
func newMetrics(programs []*transport.Program) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), calls: map[callKey]*callFigures{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "nfsrdma", Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	labels := []string{"transport", "program", "procedure"}
	conns := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "nfsrdma", Name: "connections", Help: "Connections that there are."}, labels[:1])
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "nfsrdma", Name: "call_seconds",
		Help: "Time that procedures ran, without the network.", Buckets: durations}, labels)
	m.registry.MustRegister(conns, took, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	accepted := counter("connections_total", "Connections that there have been.", labels[:1]...)
	count := counter("calls_total", "Calls by procedure.", labels...)
	in := counter("argument_octets_total", "Octets of arguments, data included.", labels...)
	out := counter("result_octets_total", "Octets of results, data included.", labels...)
	m.errors = counter("errors_total", "Calls that were refused, by status.", append(labels, "status")...)
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
		return "RPC"
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

// serve gives the figures out over HTTP until end is called.
func (m *metrics) serve(addr string) (end func() error, err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	go server.Serve(l)
	return server.Close, nil
}
