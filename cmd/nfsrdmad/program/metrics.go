// The server's metrics for Prometheus: the registry, and the HTTP server.

package program

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/figures"
	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts a server's events. It implements transport.Observer.
type metrics struct {
	// Set once.
	registry *prometheus.Registry
	accepted [2]prometheus.Counter // accepted connections by transport: TCP, RDMA
	calls    *callFigures
	started  time.Time
	program  string // the server's name
}

// namespace is the prefix of all metrics except those of Go and of the process.
const namespace = "nfsrdma"

// newMetrics returns zero metrics for a server of the programs. Names and units follow Prometheus's
// conventions: base units, and the suffix _total for counters.
func newMetrics(programs []*transport.Program) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), calls: newCallFigures(programs), started: time.Now()}
	accepted := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "connections_accepted_total",
		Help: "Connections since the start of the server."}, []string{"transport"})
	for i := range m.accepted {
		m.accepted[i] = accepted.WithLabelValues(viaName(i == 1))
	}
	m.registry.MustRegister(accepted, m.calls, buildInfo(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// startMetrics counts the activity of a server that will listen on l. The metrics are available on
// the control socket and, if addr is set, over HTTP until end is called.
func startMetrics(program, addr string, l *nfsserver.Listen, srv *nfsserver.Server) (m *metrics, end func() error, err error) {
	m, end = newMetrics(append(srv.Programs(), l.Programs...)), func() error { return nil }
	m.program = program
	if addr != "" {
		if end, err = m.serve(addr); err != nil {
			return nil, nil, metricsError(addr, err)
		}
		if host, _, err := net.SplitHostPort(addr); err == nil {
			warnAbsent("--metrics-addr", host)
		}
	}
	l.RPC.Observer = m
	return m, end, nil
}

// checkMetricsAddr validates --metrics-addr.
func checkMetricsAddr(addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil && port != "" {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return fmt.Errorf("--metrics-addr %s: must be an address and a port, such as 127.0.0.1:9049 or [::1]:9049", addr)
	}
	return nil
}

// metricsError adds a remedy to an error about the address.
func metricsError(addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--metrics-addr %s is in use: end the program that has it, or choose another port", addr)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("--metrics-addr %s needs privileges: choose a port from 1024 on", addr)
	}
	return fmt.Errorf("--metrics-addr %s: %w", addr, err)
}

// buildInfo returns the program's build, as labels of a gauge that is always 1.
func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info",
		Help: "Version and source of the program, as labels; always 1."}, []string{"version", "revision", "goversion"})
	version, revision := cli.Build()
	g.WithLabelValues(version, revision, runtime.Version()).Set(1)
	return g
}

// watch adds the metrics about a started service; locks is nil without a lock service.
func (m *metrics) watch(v *nfsserver.Service, s *nfsserver.Server, locks *nlm.Service, sec *security) {
	m.registry.MustRegister(&stateFigures{v, s, locks}, securityFigures{sec})
}

// A figuresReport is the answer to figures, used by nfsrdma top: the same metrics as at
// --metrics-addr.
type figuresReport struct {
	Figures figures.Set `json:"figures"`
}

// figures returns all metrics.
func (r *running) figures() (any, error) {
	all, err := r.metrics.samples()
	if err != nil {
		return nil, err
	}
	return &figuresReport{all}, nil
}

// Connection implements transport.Observer.
func (m *metrics) Connection(rdma bool, delta int) {
	if delta > 0 {
		m.accepted[viaIndex(rdma)].Add(float64(delta))
	}
}

// Call implements transport.Observer.
func (m *metrics) Call(s transport.CallStats) { m.calls.count(&s) }

// serve serves the metrics over HTTP until end is called.
func (m *metrics) serve(addr string) (end func() error, err error) {
	l, err := transport.ListenConfig{Logger: logto.Standard}.Listen(addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	m.handlePage(mux)
	scrapes := limitScrapes(l)
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
		IdleTimeout: scrapeIdle, ConnState: scrapes.state,
		ErrorLog: log.New(io.Discard, "", 0)} // not logged: the HTTP peers see their errors
	go server.Serve(scrapes)
	return server.Close, nil
}
