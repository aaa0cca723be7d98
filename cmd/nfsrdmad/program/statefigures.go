// Figures of the server's state, read whenever they are asked for: connections, memory, locks, exports, RoCE.

package program

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/prometheus/client_golang/prometheus"
)

// stateFigures is what a service that has been started tells of. Nothing in it grows with clients or paths.
type stateFigures struct {
	// Set once.
	service *nfsserver.Service
	server  *nfsserver.Server
	locks   *nlm.Service // nil: there are none
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
	conns         = desc("connections", "Connections that there are.", "transport", "provider")
	connOldest    = desc("connection_oldest_age_seconds", "Age of the oldest connection; 0: there is none.", "transport", "provider")
	creditGranted = desc("credits_granted", "Calls at once that all connections over RDMA together are allowed.", "provider")
	creditUsed    = desc("credits_used", "Calls over RDMA that are in the server.", "provider")
	refused       = desc("refusals_total", "Connections, calls before their procedure, and clients of exports that were turned away, by reason.", "reason")
	repeats       = desc("duplicate_calls_total", "Calls that came again: replayed, answered with the reply that was kept; joined, came while the first was running.", "outcome")
	repeatKept    = desc("duplicate_cache_replies", "Replies that are kept for calls that come again.")
	repeatBytes   = desc("duplicate_cache_bytes", "Bytes of replies that are kept for calls that come again.")

	budgetMost    = desc("budget_bytes", "Bytes of data under way that there may be at once, by budget.", "budget")
	budgetUsed    = desc("budget_used_bytes", "Bytes of data under way, by budget.", "budget")
	budgetWaiting = desc("budget_waiting_connections", "Connections that wait for bytes of a budget.", "budget")
	budgetWaits   = desc("budget_waits_total", "Times that a connection had to wait for bytes of a budget.", "budget")

	exportCount = desc("exports", "Exports that are served.")
	mountCount  = desc("mounts", "Pairs of client and directory in MOUNT's list, which clients may leave without a word.")

	lockHeld     = desc("locks_held", "Locks and shares of clients.")
	lockWaiting  = desc("locks_waiting", "Blocking requests for locks that wait, or that clients have not confirmed yet.")
	lockFiles    = desc("lock_files", "Files that clients have locked or wait for.")
	lockClients  = desc("lock_clients", "Clients that have locks, or had some lately.")
	lockRequests = desc("lock_requests_total", "Requests for locks: granted, at once or after waiting; blocked, told to wait; denied.", "result")
	lockLost     = desc("locks_lost_total", "Locks that ended because their client has started again, or their export is gone.")
	lockGrace    = desc("lock_grace_seconds", "Time until clients can take new locks; 0: they can.")

	roceDrops = desc("roce_dropped_packets_total", "Packets that came over RoCE and were dropped, by reason.", "reason")
	roceAgain = desc("roce_retransmissions_total", "Times that what a peer had not acknowledged over RoCE was sent again.")
)

// Describe implements prometheus.Collector.
func (f *stateFigures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{conns, connOldest, creditGranted, creditUsed, refused, repeats, repeatKept, repeatBytes,
		budgetMost, budgetUsed, budgetWaiting, budgetWaits, exportCount, mountCount,
		lockHeld, lockWaiting, lockFiles, lockClients, lockRequests, lockLost, lockGrace, roceDrops, roceAgain} {
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
	ch <- counter(refused, s.RefusedClient, "export_client")
	ch <- counter(refused, s.RefusedPort, "export_port")
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
	ch <- counter(repeats, t.Repeats.Replayed, "replayed")
	ch <- counter(repeats, t.Repeats.Joined, "joined")
	ch <- gauge(repeatKept, t.Repeats.Replies)
	ch <- gauge(repeatBytes, t.Repeats.Bytes)
}

// connFigures are the connections of one provider.
type connFigures struct {
	provider      string // "" of TCP
	count         int
	oldest        time.Duration
	granted, used int // credits
}

func (f *stateFigures) collectConns(ch chan<- prometheus.Metric) {
	by := map[string]*connFigures{}
	for provider, on := range map[string]bool{"": f.service.TCPAddr != nil, "iwarp": f.service.RDMAAddr != nil, "roce": f.service.RoCEAddr != nil} {
		if on {
			by[provider] = &connFigures{provider: provider}
		}
	}
	list, _ := f.service.Clients()
	for i := range list {
		c := by[list[i].Provider]
		if c == nil {
			continue // no listener has such
		}
		c.count++
		c.oldest = max(c.oldest, time.Since(list[i].Opened))
		if rdma := list[i].RDMA; rdma != nil {
			c.granted += rdma.Granted
			c.used += rdma.InUse
		}
	}
	for _, c := range by {
		provider := c.provider
		if provider == "" {
			provider = "tcp"
		} else {
			ch <- gauge(creditGranted, c.granted, provider)
			ch <- gauge(creditUsed, c.used, provider)
		}
		ch <- gauge(conns, c.count, viaName(c.provider != ""), provider)
		ch <- gauge(connOldest, c.oldest.Seconds(), viaName(c.provider != ""), provider)
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
