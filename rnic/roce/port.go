// The port: one address of this process, its socket, and the two goroutines that move its packets.

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

	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A port is one address and UDP port. All QPs of the process that are bound there share it, those
// of different Devices too, for a second socket would take the packets of the first one.
type port struct {
	// set once
	key  netip.AddrPort
	wire udp.Wire
	core *core.Port
	tx   transmitter
	wake chan struct{} // one token: the service loop has something to do
	quit atomic.Bool
	tick atomic.Int64 // Instant that the service loop sleeps until, 0 when it is awake

	timers  timers
	control control
	groups  groups

	receiving sync.Mutex // held by the receive loop that has packets in hand, for as long as it runs handlers

	users int // guarded by ports.mu

	mu    sync.Mutex
	dying []*endpoint // guarded by mu: they have ended, and finish has to run
	owing []*endpoint // guarded by mu: handlers have to run

	refusals []unheard // guarded by mu: what the network says of packets of ours
}

// ports is the ports of this process.
var ports = struct {
	mu  sync.Mutex
	all map[netip.AddrPort]*port // guarded by mu

	// Counters never go back, so those of closed ports are kept: of a port in ending they are its
	// own still, those of the others before it are in ended. Guarded by mu.
	ending map[*port]struct{}
	ended  dropCounts
}{all: make(map[netip.AddrPort]*port), ending: make(map[*port]struct{})}

// epoch is what Instants are counted from.
var epoch = time.Now()

// now is the time for a core; never 0, which means none there.
func now() core.Instant { return core.Instant(time.Since(epoch)) + 1 }

// openPort returns the port of an address, opened if nobody has it yet. release gives it back.
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
	t := &port{key: at, wire: w, users: 1, wake: make(chan struct{}, 1)}
	t.core = core.NewPort(at.Addr(), t.control.general)
	t.tx.t, t.tx.joining = t, newJoining(at.Addr())
	t.control.init(t)
	w.OnRefused(t.refusedAt)
	ports.all[at] = t
	go t.receiveLoop(w)
	go t.serviceLoop()
	return t, nil
}

// canonical is the one form of an address of this host. An IPv6 link-local address has the name of
// its interface as its zone; any other address has no zone.
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

// zoned is the address of a peer of the port, as in packets, with its zone.
func (t *port) zoned(a netip.Addr) netip.Addr {
	if !a.IsLinkLocalUnicast() {
		return a
	}
	return a.WithZone(t.key.Addr().Zone())
}

// release gives back what openPort returned; the last one closes the socket.
func (t *port) release() {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if t.users--; t.users > 0 {
		return
	}
	delete(ports.all, t.key)
	ports.ending[t] = struct{}{}
	t.quit.Store(true)
	t.wire.Close()
	t.wakeUp()
}

// wakeUp has the service loop look at everything that it has to do.
func (t *port) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// serviceLoop does what nobody else can: it waits for room in the socket, keeps the time, and ends
// QPs.
func (t *port) serviceLoop() {
	defer t.leaveCounts()
	defer t.control.keepNoMore()
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	for !t.quit.Load() {
		t.tx.runLoop()
		t.timers.run(t, now())
		t.takeRefusals()
		t.runHandlers()
		t.finishAll()
		// From here on a deadline that is new wakes the loop, if it is not seen by next.
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

// notifyLater has handlers run that completions wait for, where the caller cannot run them.
func (t *port) notifyLater(e *endpoint) {
	t.mu.Lock()
	if !e.owes {
		e.owes = true
		t.owing = append(t.owing, e)
	}
	t.mu.Unlock()
	t.wakeUp()
}

func (t *port) runHandlers() {
	t.mu.Lock()
	list := t.owing
	t.owing = nil
	for _, e := range list {
		e.owes = false
	}
	t.mu.Unlock()
	for _, e := range list {
		e.q.Notify()
	}
}

// endLater has finish run for an endpoint whose core is in ERR. One that was not established has
// nothing to finish: its core is in ERR because unbind gives it up, maybe while a packet for it is
// looked at.
func (t *port) endLater(e *endpoint) {
	e.mu.Lock()
	started := e.started
	e.mu.Unlock()
	if !started {
		return
	}
	t.mu.Lock()
	first := !e.dying
	if first {
		e.dying = true
		t.dying = append(t.dying, e)
	}
	t.mu.Unlock()
	if first {
		t.wakeUp()
	}
}

func (t *port) finishAll() {
	t.mu.Lock()
	list := t.dying
	t.dying = nil
	t.mu.Unlock()
	for _, e := range list {
		e.finish()
	}
}

// pathMTU is the path MTU of packets from an address: the most that its interface takes at this
// moment.
func pathMTU(addr netip.Addr) int { return connMTU(linkMTU(addr)) }

// connMTU is the largest path MTU for packets of at most n bytes.
func connMTU(n int) int {
	if mtu := core.PathMTU(n); mtu != 0 {
		return mtu
	}
	return 256 // the least that there is; the network will tell
}

// ethernetMTU is assumed of an interface that is not found.
const ethernetMTU = 1500

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
