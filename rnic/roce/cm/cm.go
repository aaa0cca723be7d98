// A CM: what it is made with, its tables, and what goes in and out.

package cm

import (
	"container/list"
	"errors"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// An Instant is a point in time, or a time, in nanoseconds, on a clock of the owner's that never
// goes back.
type Instant int64

const (
	millisecond Instant = 1e6
	second              = 1000 * millisecond
)

// Config is what a CM is made with. Zero values of what follows MTU stand for the defaults.
type Config struct {
	Addr netip.Addr    // of the port
	GUID uint64        // of the channel adapter: tells it from others, and from itself before it was restarted
	MTU  mad.MTU       // largest path MTU that the port can have
	Rand func() uint64 // numbers that nobody can predict

	// ResponseTimeout is how long a REQ, DREQ or SIDR_REQ waits for its answer before it is sent
	// again (default 18: 1.07 s), and Retries how often that is, at most 15 (default 15). The peer
	// is told both.
	ResponseTimeout mad.Timeout
	Retries         uint8

	TimeWait  Instant // how long a QPN rests (default 1 s)
	Patience  Instant // the longest that a half-open connection lives, whatever its peer asks for (default 60 s)
	Waiting   Instant // the longest that an MRA of the peer makes a repetition wait (default 120 s)
	HalfOpen  int     // half-open connections, at most, until Bound says otherwise (default 256),
	PerSource int     // and of one source (default 64)
	TimeWaits int     // connections in time-wait, at most (default 4096)
	Refusals  int     // answers without state, in a second (default 1000)
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

	services map[mad.ServiceID]bool
	conns    map[uint32]*Conn // by our communication ID or request ID
	requests map[remote]*Conn // asked for by a peer, by its identifier
	pairs    map[pair]*Conn   // of a peer's queue pair that has been established, until released
	sources  map[netip.Addr]*source
	halfOpen list.List // of *Conn, the oldest first
	timeWait list.List // likewise
	timers   timers
	refusals bucket
	most     int // half-open connections,
	mostOf   int // and of one source; see Bound

	events   []Event
	sends    []Datagram
	counters Counters
}

// remote is how a peer names a connection or a question.
type remote struct {
	peer netip.Addr
	id   uint32
	sidr bool
}

// pair is a queue pair of a peer.
type pair struct {
	peer netip.Addr
	guid uint64
	qpn  uint32
}

// A Datagram is one to be sent to queue pair 1 of an address.
type Datagram struct {
	To  netip.Addr
	MAD [mad.Len]byte
}

// Errors of methods.
var (
	ErrState   = errors.New("roce: the connection is not in a state for that")
	ErrService = errors.New("roce: the service is taken")
	ErrPrivate = errors.New("roce: private data does not fit")
	ErrPeer    = errors.New("roce: the peer's address is not of the port's family")
)

// New returns a CM without services and connections.
func New(cfg Config) *CM {
	cfg.defaults()
	return &CM{cfg: cfg, most: cfg.HalfOpen, mostOf: cfg.PerSource, services: make(map[mad.ServiceID]bool), conns: make(map[uint32]*Conn), requests: make(map[remote]*Conn),
		pairs: make(map[pair]*Conn), sources: make(map[netip.Addr]*source)}
}

// Counters is what became of datagrams and connections.
func (c *CM) Counters() Counters { return c.counters }

// Conns is how many connections and questions there are, of all states.
func (c *CM) Conns() int { return len(c.conns) }

// PollSend moves the next datagram that is to be sent to d, and reports whether there was one.
func (c *CM) PollSend(d *Datagram) bool {
	if len(c.sends) == 0 {
		c.sends = nil
		return false
	}
	*d = c.sends[0]
	c.sends = c.sends[1:]
	return true
}

// PollEvent moves the next event to e, and reports whether there was one.
func (c *CM) PollEvent(e *Event) bool {
	if len(c.events) == 0 {
		c.events = nil
		return false
	}
	*e = c.events[0]
	c.events = c.events[1:]
	return true
}

// NextDeadline is when Advance has something to do; ok is false if never.
func (c *CM) NextDeadline() (at Instant, ok bool) { return c.timers.first() }

// Advance does what is due at now: repetitions, and ends of patience.
func (c *CM) Advance(now Instant) {
	for {
		at, ok := c.timers.first()
		if !ok || at > now {
			return
		}
		c.due(now, c.timers[0])
	}
}

// due is what the time does to a connection.
func (c *CM) due(now Instant, k *Conn) {
	switch {
	case k.state == established:
		c.timers.stop(k)
		if k.tries < rtuRepeats {
			k.tries++
			c.repeat(k)
			c.timers.start(k, now+k.interval)
		}
		return
	case k.state == timeWait || k.state == refused || k.state == answered:
		c.become(k, released)
		return
	case k.state.halfOpen():
		if now >= k.patience {
			c.giveUp(now, k)
			return
		}
	case k.tries >= k.limit:
		c.giveUp(now, k)
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

func (c *CM) tell(e Event) { c.events = append(c.events, e) }
