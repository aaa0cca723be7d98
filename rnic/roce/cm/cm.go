// The CM: its configuration, tables, input and output.

package cm

import (
	"container/list"
	"errors"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// An Instant is a time or duration in nanoseconds, on the owner's monotonic clock.
type Instant int64

const (
	millisecond Instant = 1e6
	second              = 1000 * millisecond
)

// Config configures a CM. A zero field after MTU means its default.
type Config struct {
	Addr netip.Addr    // the port's
	GUID uint64        // channel adapter GUID, different for each device and restart
	MTU  mad.MTU       // the port's largest path MTU
	Rand func() uint64 // returns unpredictable numbers

	// ResponseTimeout is how long a REQ, DREQ or SIDR_REQ waits for its answer before being sent
	// again (default 18: 1.07 s). Retries is the number of repetitions, at most 15 (default 15).
	// REQs carry both values.
	ResponseTimeout mad.Timeout
	Retries         uint8

	TimeWait Instant // how long a released QPN rests (default 1 s)
	// Patience is a half-open connection's maximum lifetime; the peer cannot extend the lifetime
	// (default 60 s).
	Patience  Instant
	Waiting   Instant // the longest delay that a peer's MRA can impose (default 120 s)
	HalfOpen  int     // most half-open connections, unless Bound sets it (default 256)
	PerSource int     // most half-open connections from one source, likewise (default 64)
	TimeWaits int     // most connections in time-wait (default 4096)
	Refusals  int     // most stateless answers in a second (default 1000)
}

func (cfg *Config) defaults() {
	set(&cfg.ResponseTimeout, 18)
	set(&cfg.Retries, 15)
	set(&cfg.TimeWait, second)
	set(&cfg.Patience, 60*second)
	set(&cfg.Waiting, 120*second)
	set(&cfg.HalfOpen, 256)
	set(&cfg.PerSource, 64)
	set(&cfg.TimeWaits, 4096)
	set(&cfg.Refusals, 1000)
	cfg.Retries = min(cfg.Retries, 15)
	cfg.Addr = cfg.Addr.Unmap().WithZone("")
}

func set[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// A CM is the communication manager of one port.
type CM struct {
	cfg Config // set once

	services     map[mad.ServiceID]bool
	conns        map[uint32]*Conn // by our communication ID or request ID
	requests     map[remote]*Conn // the peer's requests, by its identifier
	pairs        map[pair]*Conn   // established, by the peer's queue pair, until released
	sources      map[netip.Addr]*source
	halfOpen     list.List // of *Conn, the oldest first
	timeWait     list.List // likewise
	timers       timers
	refusals     bucket
	maxHalfOpen  int // limit of half-open connections; see Bound
	maxPerSource int // limit of those from one source; see Bound

	events   []Event
	sends    []Datagram
	counters Counters
}

// remote is a peer's identifier for a connection or SIDR request.
type remote struct {
	peer netip.Addr
	id   uint32
	sidr bool
}

// pair identifies a peer's queue pair.
type pair struct {
	peer netip.Addr
	guid uint64
	qpn  uint32
}

// A Datagram is an outgoing message to queue pair 1 of an address.
type Datagram struct {
	To  netip.Addr
	MAD [mad.Len]byte
}

// Errors returned by methods.
var (
	ErrState   = errors.New("roce: the connection is not in a state for that")
	ErrService = errors.New("roce: the service is taken")
	ErrPrivate = errors.New("roce: private data does not fit")
	ErrPeer    = errors.New("roce: the peer's address is not of the port's family")
)

// New returns a CM without services or connections.
func New(cfg Config) *CM {
	cfg.defaults()
	return &CM{cfg: cfg, maxHalfOpen: cfg.HalfOpen, maxPerSource: cfg.PerSource, services: make(map[mad.ServiceID]bool), conns: make(map[uint32]*Conn), requests: make(map[remote]*Conn),
		pairs: make(map[pair]*Conn), sources: make(map[netip.Addr]*source)}
}

// Counters counts datagrams and connections by outcome.
func (c *CM) Counters() Counters { return c.counters }

// Conns returns the number of connections and SIDR requests in all states.
func (c *CM) Conns() int { return len(c.conns) }

// PollSend moves the next outgoing datagram, if any, to d, and reports whether it did.
func (c *CM) PollSend(d *Datagram) bool {
	if len(c.sends) == 0 {
		c.sends = nil
		return false
	}
	*d = c.sends[0]
	c.sends = c.sends[1:]
	return true
}

// PollEvent moves the next event, if any, to e, and reports whether it did.
func (c *CM) PollEvent(e *Event) bool {
	if len(c.events) == 0 {
		c.events = nil
		return false
	}
	*e = c.events[0]
	c.events = c.events[1:]
	return true
}

// NextDeadline returns when to call Advance; ok is false if no timer runs.
func (c *CM) NextDeadline() (at Instant, ok bool) { return c.timers.first() }

// Advance handles expired timers: repetitions and timeouts.
func (c *CM) Advance(now Instant) {
	for {
		at, ok := c.timers.first()
		if !ok || at > now {
			return
		}
		c.handleTimer(now, c.timers[0])
	}
}

// handleTimer handles a connection's expired timer.
func (c *CM) handleTimer(now Instant, k *Conn) {
	switch {
	case k.state == established:
		c.timers.stop(k)
		if k.tries < rtuRepeats {
			k.tries++
			c.repeat(k)
			c.timers.start(k, now+k.interval)
		}
		return
	case k.state == timeWait || k.state == refused || k.state == sidrRepSent:
		c.become(k, released)
		return
	case k.state.halfOpen():
		if now >= k.patience {
			c.timeOut(now, k)
			return
		}
	case k.tries >= k.limit:
		c.timeOut(now, k)
		return
	}
	at := now + k.interval
	if k.tries < k.limit {
		k.tries++
		c.repeat(k)
	}
	if k.state.halfOpen() {
		at = min(at, k.patience)
	}
	c.timers.start(k, at)
}

func (c *CM) emit(e Event) { c.events = append(c.events, e) }
