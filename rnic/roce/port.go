// The port: one local address, its socket, and the two goroutines that move its packets.

package roce

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/clock"
	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A port is one address and UDP port. All QPs of the process bound there share the port, across
// Devices, because a second socket would steal the first one's packets.
type port struct {
	// set once
	key  netip.AddrPort
	wire udp.Wire
	core *core.Port
	tx   transmitter
	wake chan struct{} // has a token when the service loop has something to do
	quit atomic.Bool
	tick atomic.Int64 // Instant until which the service loop sleeps; 0: the loop is awake

	timers  timers
	control control
	groups  groups

	// receiving has a token while a receive loop handles packets, including the QPs' handlers. It
	// is no mutex, because another goroutine can take over the loop and release the token
	// (receiver.follow).
	receiving chan struct{}

	yields tally.Counter // to woken goroutines; won: they posted

	users     int              // guarded by ports.mu
	decisions *rnic.ProviderQP // guarded by ports.mu: its Device has the port's decisions; nil: none

	mu          sync.Mutex
	endQueue    []*endpoint // guarded by mu: endpoints that have ended and await finish
	notifyQueue []*endpoint // guarded by mu: endpoints with handlers to run

	closedPortReports []closedPortReport // guarded by mu: ICMP reports about our packets
}

// ports has this process's ports.
var ports = struct {
	mu  sync.Mutex
	all map[netip.AddrPort]*port // guarded by mu

	// Counters never decrease, so closed ports' counts are kept: a port in ending still has its
	// counts, and ended sums the counts of earlier ports. Guarded by mu.
	ending map[*port]struct{}
	ended  dropCounts
}{all: make(map[netip.AddrPort]*port), ending: make(map[*port]struct{})}

// now returns the current Instant, never 0 because 0 means none.
func now() core.Instant { return core.Instant(clock.Elapsed()) + 1 }

// openPort returns an address's port, opening it if necessary. The caller must release it.
func openPort(at netip.AddrPort, wrap func(udp.Wire) udp.Wire) (*port, error) {
	at = netip.AddrPortFrom(canonical(at.Addr()), at.Port())
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if t := ports.all[at]; t != nil {
		t.users++
		return t, nil
	}
	w, err := udp.Open(at)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("roce: UDP port %d of %v is in use by another process, such as a mount over RoCE, or by the kernel's rdma_rxe: "+
			"peers send all packets to that port, so one process of a host has RoCE by an address. iWARP and TCP work next to it: %w", at.Port(), at.Addr(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("roce: %w", err)
	}
	if wrap != nil {
		w = wrap(w)
	}
	t := &port{key: at, wire: w, users: 1, wake: make(chan struct{}, 1), receiving: make(chan struct{}, 1)}
	t.core = core.NewPort(at.Addr(), t.control.general)
	t.tx.t, t.tx.joining = t, newJoinMonitor(at.Addr())
	t.control.init(t)
	w.OnRefused(t.reportClosedPort)
	ports.all[at] = t
	go t.receiveLoop(w)
	go t.serviceLoop()
	return t, nil
}

// canonical returns the one form of a local address. An IPv6 link-local address has its
// interface's name as zone; other addresses have none.
func canonical(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.IsLinkLocalUnicast() {
		return a.WithZone("")
	}
	if n, err := strconv.Atoi(a.Zone()); err == nil {
		if i, err := net.InterfaceByIndex(n); err == nil {
			return a.WithZone(i.Name)
		}
	}
	return a
}

// zoned adds the port's zone to a peer address from a packet.
func (t *port) zoned(a netip.Addr) netip.Addr {
	if !a.IsLinkLocalUnicast() {
		return a
	}
	return a.WithZone(t.key.Addr().Zone())
}

// joinDecisions adds the port's decisions to those of q's Device, unless another Device has them:
// Devices share a port.
func (t *port) joinDecisions(q *rnic.ProviderQP) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if t.decisions == nil {
		t.decisions = q
		q.JoinDecisions(t)
	}
}

// AddTo implements tally.Source.
func (t *port) AddTo(all tally.Table) {
	t.wire.AddTo(all)
	all.Add("batch_yield", t.yields.Counts())
	all.Add("join_packets", t.tx.joining.tally.Counts())
}

// release undoes openPort; the last user's release closes the socket.
func (t *port) release() {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if t.users--; t.users > 0 {
		return
	}
	delete(ports.all, t.key)
	ports.ending[t] = struct{}{}
	if t.decisions != nil {
		t.decisions.LeaveDecisions(t)
	}
	t.quit.Store(true)
	t.wire.Close()
	t.wakeUp()
}

// wakeUp makes the service loop check all its duties.
func (t *port) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// serviceLoop waits for room in the socket, runs timers, runs leftover handlers, and ends QPs.
func (t *port) serviceLoop() {
	defer t.leaveCounts()
	defer t.control.stopRecording()
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	for !t.quit.Load() {
		t.tx.runLoop()
		t.timers.run(t, now())
		t.handleClosedPorts()
		t.runHandlers()
		t.finishAll()
		// After this store a new deadline wakes the loop if next does not include it.
		t.tick.Store(math.MaxInt64)
		next, ok := t.timers.next()
		if at, some := t.control.run(); some && (!ok || at < next) {
			next, ok = at, true
		}
		wait := time.Hour
		if ok {
			wait = time.Duration(max(next-now(), 0))
			t.tick.Store(int64(next))
		}
		sleep.Reset(wait)
		select {
		case <-t.wake:
		case <-sleep.C:
		}
		t.tick.Store(0)
	}
}

// notifyLater makes the service loop run completion handlers that the caller cannot run.
func (t *port) notifyLater(e *endpoint) {
	t.mu.Lock()
	if !e.notifyQueued {
		e.notifyQueued = true
		t.notifyQueue = append(t.notifyQueue, e)
	}
	t.mu.Unlock()
	t.wakeUp()
}

func (t *port) runHandlers() {
	t.mu.Lock()
	list := t.notifyQueue
	t.notifyQueue = nil
	for _, e := range list {
		e.notifyQueued = false
	}
	t.mu.Unlock()
	for _, e := range list {
		e.q.Notify()
	}
}

// endLater makes the service loop finish an endpoint with its core in ERR. An endpoint that was
// never established needs no finish, but can get here: unbind sets its core to ERR, maybe while the
// receive loop handles a packet for the core.
func (t *port) endLater(e *endpoint) {
	e.mu.Lock()
	started := e.started
	e.mu.Unlock()
	if !started {
		return
	}
	t.mu.Lock()
	first := !e.endQueued
	if first {
		e.endQueued = true
		t.endQueue = append(t.endQueue, e)
	}
	t.mu.Unlock()
	if first {
		t.wakeUp()
	}
}

func (t *port) finishAll() {
	t.mu.Lock()
	list := t.endQueue
	t.endQueue = nil
	t.mu.Unlock()
	for _, e := range list {
		e.finish()
	}
}

// pathMTU returns the path MTU for packets from an address, by its interface's current MTU.
func pathMTU(addr netip.Addr) int { return connMTU(linkMTU(addr)) }

// connMTU returns the largest path MTU for packets of at most n bytes.
func connMTU(n int) int {
	if mtu := core.PathMTU(n); mtu != 0 {
		return mtu
	}
	return 256 // the smallest MTU; if even 256 is too large, a send fails
}

func linkMTU(addr netip.Addr) int {
	list, err := net.Interfaces()
	if err != nil {
		return ethernetMTU
	}
	for i := range list {
		addrs, err := list[i].Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			is, _ := netip.AddrFromSlice(n.IP)
			if canonical(is.Unmap().WithZone(list[i].Name)) == addr || addr.IsLoopback() && list[i].Flags&net.FlagLoopback != 0 {
				return list[i].MTU
			}
		}
	}
	return ethernetMTU
}
