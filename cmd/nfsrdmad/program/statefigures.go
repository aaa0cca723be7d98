// Metrics of the server's state, read on request: connections, memory, locks, exports, RoCE.

package program

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/prometheus/client_golang/prometheus"
)

// stateFigures has the metrics of a started service. Their number does not grow with clients or
// paths.
type stateFigures struct {
	// Set once.
	service *nfsserver.Service
	server  *nfsserver.Server
	locks   *nlm.Service // nil: no lock service
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge[T int | int64 | float64](d *prometheus.Desc, v T, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

var (
	conns         = desc("connections", "Open connections.", "transport", "rdma")
	connOldest    = desc("connection_oldest_age_seconds", "Age of the oldest connection; 0: no connection.", "transport", "rdma")
	creditGranted = desc("credits_granted", "Credits granted to all connections over RDMA: calls that can be under way.", "rdma")
	creditUsed    = desc("credits_used", "Calls over RDMA that are under way.", "rdma")
	refused       = desc("refusals_total", "Refused connections, calls and clients of exports, by reason.", "reason")
	handshakes    = desc("tls_handshakes_total", "TLS handshakes by result: tls, mtls with a client's certificate, or why they failed.", "result")
	repeats       = desc("duplicate_calls_total", "Repeated calls. replayed: answered from the reply cache; joined: the first one was still running.", "outcome")
	repeatKept    = desc("duplicate_cache_replies", "Replies in the cache for repeated calls.")
	repeatBytes   = desc("duplicate_cache_bytes", "Bytes of replies in the cache for repeated calls.")

	budgetMost    = desc("budget_bytes", "Limit of the bytes of data under way, by budget.", "budget")
	budgetUsed    = desc("budget_used_bytes", "Bytes of data under way, by budget.", "budget")
	budgetWaiting = desc("budget_waiting_connections", "Connections that wait for room in a budget.", "budget")
	budgetWaits   = desc("budget_waits_total", "Times that a connection had to wait for room in a budget.", "budget")

	exportCount = desc("exports", "Exports.")
	mountCount  = desc("mounts", "Entries of the mount list, a client and a directory each. Clients can leave without removing theirs.")

	lockHeld     = desc("locks_held", "Locks and shares that clients hold.")
	lockWaiting  = desc("locks_waiting", "Blocking lock requests that wait, or whose grant the client has not confirmed.")
	lockFiles    = desc("lock_files", "Files with locks or waiting lock requests.")
	lockClients  = desc("lock_clients", "Clients that hold locks, or held some recently.")
	lockRequests = desc("lock_requests_total", "Lock requests by result: granted, at once or after waiting; blocked, to wait; denied.", "result")
	lockLost     = desc("locks_lost_total", "Locks that were released because their client restarted or their export is gone.")
	lockGrace    = desc("lock_grace_seconds", "Time until clients can take new locks after a restart of the server; 0: they can.")

	mechanisms = desc("mechanism_decisions_total", "Decisions of mechanisms of the data path. won: it acted, and that paid; lost: it did not pay; passed: it did not act.", "mechanism", "outcome")

	roceDrops = desc("roce_dropped_packets_total", "Received RoCE packets that were dropped, by reason.", "reason")
	roceAgain = desc("roce_retransmissions_total", "Retransmissions over RoCE of data that a peer did not acknowledge.")
)

// Reasons for refusals outside the transport.
const (
	exportClient = "export_client"
	exportPort   = "export_port"

	exportFlavor      = "export_sec"
	exportChannel     = "export_xprtsec"
	exportCertificate = "export_certificate"
)

// Describe implements prometheus.Collector.
func (f *stateFigures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{conns, connOldest, creditGranted, creditUsed, refused, handshakes, repeats, repeatKept, repeatBytes,
		budgetMost, budgetUsed, budgetWaiting, budgetWaits, exportCount, mountCount,
		lockHeld, lockWaiting, lockFiles, lockClients, lockRequests, lockLost, lockGrace, mechanisms, roceDrops, roceAgain} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *stateFigures) Collect(ch chan<- prometheus.Metric) {
	f.collectTransport(ch)
	for _, u := range f.service.Budgets() {
		ch <- gauge(budgetMost, u.Max, u.Name)
		ch <- gauge(budgetUsed, u.Used, u.Name)
		ch <- gauge(budgetWaiting, u.Waiting, u.Name)
		ch <- counter(budgetWaits, u.Waits, u.Name)
	}
	s := f.server.Figures()
	ch <- gauge(exportCount, s.Exports)
	ch <- gauge(mountCount, s.Mounts)
	ch <- counter(refused, s.RefusedClient, exportClient)
	ch <- counter(refused, s.RefusedPort, exportPort)
	ch <- counter(refused, s.RefusedFlavor, exportFlavor)
	ch <- counter(refused, s.RefusedChannel, exportChannel)
	ch <- counter(refused, s.RefusedCertificate, exportCertificate)
	for name, c := range f.service.Mechanisms() {
		ch <- counter(mechanisms, c.Won, name, "won")
		ch <- counter(mechanisms, c.Lost, name, "lost")
		ch <- counter(mechanisms, c.Passed, name, "passed")
	}
	if f.locks != nil {
		f.collectLocks(ch)
	}
	if f.service.RoCEAddr != nil {
		for _, d := range roce.Drops() {
			ch <- counter(roceDrops, d.Count, d.Reason)
		}
		ch <- counter(roceAgain, roce.Retransmissions())
	}
}

func (f *stateFigures) collectTransport(ch chan<- prometheus.Metric) {
	f.collectConns(ch)
	t := f.service.Figures()
	for _, r := range t.Refused {
		ch <- counter(refused, r.Count, r.Reason)
	}
	for _, h := range t.Handshakes {
		ch <- counter(handshakes, h.Count, h.Result)
	}
	ch <- counter(repeats, t.Repeats.Replayed, "replayed")
	ch <- counter(repeats, t.Repeats.Joined, "joined")
	ch <- gauge(repeatKept, t.Repeats.Replies)
	ch <- gauge(repeatBytes, t.Repeats.Bytes)
}

// connFigures has the metrics of the connections over TCP, or over one RDMA protocol.
type connFigures struct {
	rdma          string // the label's value: iwarp, roce, or "" for TCP
	count         int
	oldest        time.Duration
	granted, used int // credits
}

func (f *stateFigures) collectConns(ch chan<- prometheus.Metric) {
	by := map[string]*connFigures{}
	for rdma, on := range map[string]bool{"": f.service.TCPAddr != nil, "iwarp": f.service.RDMAAddr != nil, "roce": f.service.RoCEAddr != nil} {
		if on {
			by[rdma] = &connFigures{rdma: rdma}
		}
	}
	list, _ := f.service.Clients()
	for i := range list {
		c := by[list[i].Provider]
		if c == nil {
			continue // no listener has such connections
		}
		c.count++
		c.oldest = max(c.oldest, time.Since(list[i].Opened))
		if rdma := list[i].RDMA; rdma != nil {
			c.granted += rdma.Granted
			c.used += rdma.InUse
		}
	}
	for _, c := range by {
		if c.rdma != "" {
			ch <- gauge(creditGranted, c.granted, c.rdma)
			ch <- gauge(creditUsed, c.used, c.rdma)
		}
		ch <- gauge(conns, c.count, viaName(c.rdma != ""), c.rdma)
		ch <- gauge(connOldest, c.oldest.Seconds(), viaName(c.rdma != ""), c.rdma)
	}
}

func (f *stateFigures) collectLocks(ch chan<- prometheus.Metric) {
	l := f.locks.Figures()
	ch <- gauge(lockHeld, l.Held)
	ch <- gauge(lockWaiting, l.Waiting)
	ch <- gauge(lockFiles, l.Files)
	ch <- gauge(lockClients, l.Clients)
	ch <- counter(lockRequests, l.Granted, "granted")
	ch <- counter(lockRequests, l.Blocked, "blocked")
	ch <- counter(lockRequests, l.Denied, "denied")
	ch <- counter(lockLost, l.Lost)
	ch <- gauge(lockGrace, f.locks.Grace().Seconds())
}
