// Lanes: which calls may have a worker, so that a stuck file system stops no other.

package transport

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Calls that may wait for the same thing, such as an exported file system, share a lane
// (Procedure.Lane); all others are in lane 0. A waiting worker costs a kernel thread, and a
// procedure waiting for a disk cannot be interrupted. So a call gets a worker only if
//
//   - its lane, beyond the few workers reserved for each lane, has at most as many as it leaves to
//     other lanes;
//   - its client has at most as many in the lane as it leaves to other clients;
//   - its connection has at most as many calls in the lane as it leaves slots for other calls.
//
// This halving leaves workers for further lanes even if earlier lanes never return theirs. Calls
// without a worker wait in a queue, one for each connection and lane. A free worker goes to a
// lane's clients in turn, and to a client's connections in turn.
//
// workerPool.mu guards all below.

// A schedule is the state of all lanes.
type schedule struct {
	// Set once.
	workers int // for all lanes
	most    int // most that a lane can have reserved

	reserve int // workers reserved for each lane
	lanes   []*lane
	clients map[clientKey]*client
	spare   int          // free workers that are not reserved
	waiting []*connQueue // queues with calls, unordered
}

// A lane has the workers for all calls that may wait for the same thing.
type lane struct {
	name    string
	running int
	// inside counts the running calls in their procedure, outside Call.Buffer. The other running
	// calls wait for clients to read replies. No lock guards it.
	inside atomic.Int32
	ended  uint64         // finished calls so far
	turn   []*clientShare // shares with a queue in turn, the next one first
}

// A clientKey distinguishes clients: by address, like conns.go, and on this machine by user.
type clientKey struct {
	host  netip.Prefix
	owner Owner
}

// A client is a source of connections.
type client struct {
	key    clientKey
	conns  int
	shares []*clientShare // by lane; nil: no calls in that lane yet
}

// A clientShare is a client's share of a lane.
type clientShare struct {
	lane    *lane
	running int
	inTurn  bool         // this share is in lane.turn
	turn    []*connQueue // waiting queues that may have another worker, the next first
}

// A connQueue is a connection's calls in one lane.
type connQueue struct {
	conn       *connQueues
	share      *clientShare
	running    int
	waiting    int
	head, tail *Call     // waiting calls
	inTurn     bool      // this queue is in share.turn
	index      int       // in schedule.waiting, while calls wait
	since      time.Time // while calls wait: last begin or end of a call, or begin of the wait
	overdue    bool      // calls have waited in vain, and no call has begun or ended since
	overdueAt  uint64    // lane.ended when overdue was set
}

// connQueues are a connection's calls, by lane, with their limits.
type connQueues struct {
	// Set once, by join.
	most   int // most concurrent calls in one lane
	slots  int // most calls that the connection may have
	client *client

	running, waiting int
	byLane           []*connQueue // nil: no calls there yet
	withdrawn        bool         // set after the connection's end: Call.Busy no longer waits
}

// init creates lane 0 and the named lanes.
func (s *schedule) init(workers, reserve int, names []string) {
	s.workers, s.most = workers, reserve
	s.lanes = []*lane{{}}
	for _, name := range names {
		s.lanes = append(s.lanes, &lane{name: name})
	}
	s.clients = map[clientKey]*client{}
	s.divide()
}

// divide distributes the workers among the current lanes.
func (s *schedule) divide() {
	n := len(s.lanes)
	workers := max(s.workers, 2*n)
	if s.reserve = max(1, min(s.most, workers/(2*n))); n == 1 {
		s.reserve = workers // the only lane may use all workers
	}
	s.spare = workers - n*s.reserve
	for _, l := range s.lanes {
		// Negative after new lanes, until some calls have ended.
		s.spare -= max(0, l.running-s.reserve)
	}
}

// name renames lane i, or adds it if i is the number of lanes.
func (s *schedule) name(i int, name string) {
	if i == len(s.lanes) {
		s.lanes = append(s.lanes, &lane{})
		s.divide()
	}
	s.lanes[i].name = name
}

// join registers a new connection's queues.
func (s *schedule) join(conn *connQueues, key clientKey) {
	c := s.clients[key]
	if c == nil {
		c = &client{key: key}
		if key.host.IsValid() { // an unknown client counts separately
			s.clients[key] = c
		}
	}
	c.conns++
	conn.client = c
}

// leave unregisters a connection without waiting calls.
func (s *schedule) leave(conn *connQueues) {
	c := conn.client
	if c.conns--; c.conns == 0 && s.clients[c.key] == c {
		delete(s.clients, c.key)
	}
}

// queueOf returns a connection's queue in lane i.
func (s *schedule) queueOf(conn *connQueues, i int) *connQueue {
	conn.byLane = upTo(conn.byLane, i)
	l := conn.byLane[i]
	if l == nil {
		conn.client.shares = upTo(conn.client.shares, i)
		sh := conn.client.shares[i]
		if sh == nil {
			sh = &clientShare{lane: s.lanes[i]}
			conn.client.shares[i] = sh
		}
		l = &connQueue{conn: conn, share: sh}
		conn.byLane[i] = l
	}
	return l
}

// upTo extends the list to include element i.
func upTo[T any](list []*T, i int) []*T {
	for len(list) <= i {
		list = append(list, nil)
	}
	return list
}

// free reports whether the lane may have another worker.
func (l *lane) free(s *schedule) bool { return l.running < s.reserve || l.running-s.reserve < s.spare }

// room returns the number of further workers that the lane could have.
func (l *lane) room(s *schedule) int {
	beyond := l.running - s.reserve
	if beyond < 0 {
		return -beyond + (s.spare+1)/2
	}
	return max(0, (s.spare-beyond+1)/2)
}

// free reports whether the client may have another worker in the lane.
func (sh *clientShare) free(s *schedule) bool { return sh.running == 0 || sh.running < sh.lane.room(s) }

// free reports whether the connection may have another worker in the lane.
func (l *connQueue) free() bool {
	return l.running == 0 || l.running < l.conn.most && l.running+1 < l.conn.slots-l.conn.running
}

func (s *schedule) mayBegin(l *connQueue) bool {
	return l.free() && l.share.lane.free(s) && l.share.free(s)
}

// begin counts a call of l that gets a worker.
func (s *schedule) begin(l *connQueue) {
	lane := l.share.lane
	l.running++
	l.conn.running++
	l.share.running++
	if lane.running++; lane.running > s.reserve {
		s.spare--
	}
	l.moved()
}

// end counts a call of l that returns its worker.
func (s *schedule) end(l *connQueue) {
	lane := l.share.lane
	l.running--
	l.conn.running--
	l.share.running--
	if lane.running--; lane.running >= s.reserve {
		s.spare++
	}
	lane.ended++
	l.moved()
}

// moved records that a call of l has begun or ended.
func (l *connQueue) moved() {
	l.overdue = false
	if l.waiting > 0 {
		l.since = time.Now()
	}
}

// hopeless reports whether a new call of l would wait in vain: other calls of l have waited in
// vain, and since then no call in the lane has ended. After any end in the lane, even of another
// connection, workers become free. Otherwise a queue without waiting calls would stay hopeless
// while other connections keep the disk busy.
func (l *connQueue) hopeless() bool { return l.overdue && l.overdueAt == l.share.lane.ended }

// push queues a call.
func (s *schedule) push(l *connQueue, c *Call) {
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next = c
	}
	l.tail = c
	l.conn.waiting++
	if l.waiting++; l.waiting == 1 {
		l.since = time.Now()
		l.index = len(s.waiting)
		s.waiting = append(s.waiting, l)
	}
	l.queue()
}

// queue puts l in turn, if its connection may have another worker.
func (l *connQueue) queue() {
	if l.inTurn || l.head == nil || !l.free() {
		return
	}
	sh := l.share
	l.inTurn = true
	sh.turn = append(sh.turn, l)
	if !sh.inTurn {
		sh.inTurn = true
		sh.lane.turn = append(sh.lane.turn, sh)
	}
}

// pop removes the call that has waited longest.
func (s *schedule) pop(l *connQueue) *Call {
	c := l.head
	if l.head = c.next; l.head == nil {
		l.tail = nil
	}
	c.next = nil
	l.conn.waiting--
	if l.waiting--; l.waiting == 0 {
		s.unlist(l)
	}
	return c
}

// unlist removes l from the queues with calls.
func (s *schedule) unlist(l *connQueue) {
	last := s.waiting[len(s.waiting)-1]
	s.waiting[l.index], last.index = last, l.index
	s.waiting[len(s.waiting)-1] = nil
	s.waiting = s.waiting[:len(s.waiting)-1]
}

// next takes a call that may begin now and counts it, or returns nil. A call of l has just ended or
// arrived. So next first tries the connection's other queues, then the lane's, then all others.
func (s *schedule) next(l *connQueue) (*connQueue, *Call) {
	if len(s.waiting) == 0 {
		return nil, nil
	}
	if l.conn.waiting > 0 {
		for _, other := range l.conn.byLane {
			if other != nil {
				other.queue()
			}
		}
	}
	if l, c := s.nextOf(l.share.lane); c != nil {
		return l, c
	}
	for _, lane := range s.lanes {
		if l, c := s.nextOf(lane); c != nil {
			return l, c
		}
	}
	return nil, nil
}

// nextOf is next within a lane.
func (s *schedule) nextOf(lane *lane) (*connQueue, *Call) {
	for i := 0; i < len(lane.turn) && lane.free(s); {
		sh := lane.turn[i]
		if !sh.free(s) {
			i++
			continue
		}
		l, c := s.nextIn(sh)
		lane.turn = slices.Delete(lane.turn, i, i+1)
		if sh.inTurn = len(sh.turn) > 0; sh.inTurn {
			lane.turn = append(lane.turn, sh)
		}
		if c != nil {
			return l, c
		}
	}
	return nil, nil
}

// nextIn is next within a free share.
func (s *schedule) nextIn(sh *clientShare) (*connQueue, *Call) {
	for len(sh.turn) > 0 {
		l := sh.turn[0]
		sh.turn = slices.Delete(sh.turn, 0, 1)
		if l.inTurn = false; l.head == nil || !l.free() {
			continue // the connection's other lanes have used up its limit; see next
		}
		c := s.pop(l)
		s.begin(l)
		l.queue()
		return l, c
	}
	return nil, nil
}

// takeAll removes the waiting calls of l for which want is true, and returns them as a list.
func (s *schedule) takeAll(l *connQueue, want func(*Call) bool) (out *Call) {
	last := &out
	var keep *Call
	keepLast := &keep
	for l.head != nil {
		c := s.pop(l)
		if want(c) {
			*last, last = c, &c.next
		} else {
			*keepLast, keepLast = c, &c.next
		}
	}
	if l.inTurn {
		l.inTurn = false
		l.share.turn = slices.DeleteFunc(l.share.turn, func(o *connQueue) bool { return o == l })
		if sh := l.share; len(sh.turn) == 0 {
			sh.inTurn = false
			sh.lane.turn = slices.DeleteFunc(sh.lane.turn, func(o *clientShare) bool { return o == sh })
		}
	}
	for keep != nil {
		c := keep
		keep, c.next = c.next, nil
		s.push(l, c)
	}
	return out
}
