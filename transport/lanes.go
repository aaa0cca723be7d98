// Lanes: which calls may have a worker, so that what one file system keeps waiting stops no other.

package transport

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Calls that may wait for the same thing, such as one exported file system, are of one lane
// (Procedure.Lane); all that wait for nothing in particular are of lane 0. A worker
// costs a thread of the kernel's while its procedure waits there, and a procedure that waits
// for a disk cannot be interrupted. So a call gets a worker only if
//
//   - its lane, beyond the few workers that each lane has to itself, then has no more
//     than it leaves to the others;
//   - its client has no more of the lane than it leaves to other clients;
//   - its connection has no more calls running in the lane than it may have beside them.
//
// By halving, lanes whose workers never come back leave some to the next, however many there
// are. Calls that get no worker wait in a line, one for each connection and lane. A
// worker that becomes free goes to the clients of a lane in turn, and to the connections of
// a client in turn.
//
// All below is guarded by workerPool.mu.

// A schedule is the state of all lanes.
type schedule struct {
	// Set once.
	workers int // of all lanes
	most    int // that a lane has to itself

	reserve int // workers that each lane has to itself
	lanes   []*lane
	clients map[clientKey]*client
	spare   int     // workers that nobody has and that are nobody's own
	waiting []*line // those with calls, in no order
}

// A lane has the workers of all calls that may wait for the same thing.
type lane struct {
	name    string
	running int
	inside  atomic.Int32 // of running: those in their procedure, and not in Call.Buffer; others wait for clients to take replies. No lock guards it
	ended   uint64       // calls so far
	turn    []*share     // those with a line in their turn, the next one first
}

// A clientKey tells clients apart: by address, as conns.go does, and on this machine by user.
type clientKey struct {
	host  netip.Prefix
	owner Owner
}

// A client is whom connections are from.
type client struct {
	key    clientKey
	conns  int
	shares []*share // by lane, as far as it has made calls; nil: none there
}

// A share is what a client has of a lane.
type share struct {
	lane    *lane
	running int
	inTurn  bool    // it is in lane.turn
	turn    []*line // those that wait and whose connection may have one more worker, the next first
}

// A line is the calls of one connection in one lane.
type line struct {
	conn       *lines
	share      *share
	running    int
	waiting    int
	head, tail *Call     // those that wait
	inTurn     bool      // it is in share.turn
	index      int       // in schedule.waiting, while some wait
	since      time.Time // while some wait: when a call of it last began or ended, or they began to
	overdue    bool      // calls have waited in vain, and none has begun or ended since
	overdueAt  uint64    // lane.ended then
}

// lines is the calls of one connection.
type lines struct {
	// Set once, by join.
	most   int // calls of one lane that run at once
	slots  int // calls that the connection may have at once
	client *client

	running, waiting int
	byLane           []*line // as far as there were calls; nil: none there yet
}

// init makes the lanes of the names, and lane 0 before them.
func (s *schedule) init(workers, reserve int, names []string) {
	s.workers, s.most = workers, reserve
	s.lanes = []*lane{{}}
	for _, name := range names {
		s.lanes = append(s.lanes, &lane{name: name})
	}
	s.clients = map[clientKey]*client{}
	s.divide()
}

// divide shares the workers out among the lanes that there are.
func (s *schedule) divide() {
	n := len(s.lanes)
	workers := max(s.workers, 2*n)
	if s.reserve = max(1, min(s.most, workers/(2*n))); n == 1 {
		s.reserve = workers // there is none to leave any to
	}
	s.spare = workers - n*s.reserve
	for _, l := range s.lanes {
		s.spare -= max(0, l.running-s.reserve) // less than none, until some have ended, where lanes have come
	}
}

// name gives lane i another name; one more than there are is made.
func (s *schedule) name(i int, name string) {
	if i == len(s.lanes) {
		s.lanes = append(s.lanes, &lane{})
		s.divide()
	}
	s.lanes[i].name = name
}

// join makes the lines of a new connection.
func (s *schedule) join(conn *lines, key clientKey) {
	c := s.clients[key]
	if c == nil {
		c = &client{key: key}
		if key.host.IsValid() { // else who it is is not known, and it is a client by itself
			s.clients[key] = c
		}
	}
	c.conns++
	conn.client = c
}

// leave forgets a connection, which has no call that waits.
func (s *schedule) leave(conn *lines) {
	c := conn.client
	if c.conns--; c.conns == 0 && s.clients[c.key] == c {
		delete(s.clients, c.key)
	}
}

// line returns that of a connection in a lane.
func (s *schedule) line(conn *lines, i int) *line {
	conn.byLane = upTo(conn.byLane, i)
	l := conn.byLane[i]
	if l == nil {
		conn.client.shares = upTo(conn.client.shares, i)
		sh := conn.client.shares[i]
		if sh == nil {
			sh = &share{lane: s.lanes[i]}
			conn.client.shares[i] = sh
		}
		l = &line{conn: conn, share: sh}
		conn.byLane[i] = l
	}
	return l
}

// upTo returns the list with an element i.
func upTo[T any](list []*T, i int) []*T {
	for len(list) <= i {
		list = append(list, nil)
	}
	return list
}

// free reports whether the lane may have one more worker.
func (l *lane) free(s *schedule) bool { return l.running < s.reserve || l.running-s.reserve < s.spare }

// room is how many more workers the lane could have.
func (l *lane) room(s *schedule) int {
	beyond := l.running - s.reserve
	if beyond < 0 {
		return -beyond + (s.spare+1)/2
	}
	return max(0, (s.spare-beyond+1)/2)
}

// free reports whether the client may have one more worker of the lane.
func (sh *share) free(s *schedule) bool { return sh.running == 0 || sh.running < sh.lane.room(s) }

// free reports whether the connection may have one more worker in the lane.
func (l *line) free() bool {
	return l.running == 0 || l.running < l.conn.most && l.running+1 < l.conn.slots-l.conn.running
}

func (s *schedule) mayBegin(l *line) bool {
	return l.free() && l.share.lane.free(s) && l.share.free(s)
}

// begin counts a call of l that gets a worker.
func (s *schedule) begin(l *line) {
	lane := l.share.lane
	l.running++
	l.conn.running++
	l.share.running++
	if lane.running++; lane.running > s.reserve {
		s.spare--
	}
	l.moved()
}

// end counts a call of l that gives its worker back.
func (s *schedule) end(l *line) {
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

// moved notes that a call of l has begun or ended.
func (l *line) moved() {
	l.overdue = false
	if l.waiting > 0 {
		l.since = time.Now()
	}
}

// hopeless reports whether a call of l that got no worker now would wait in vain: others of l have,
// and since then none of the lane has ended. Where one has, even of another connection, workers
// become free, and a line that does not stand among those that wait would never get one on a disk
// that is kept busy.
func (l *line) hopeless() bool { return l.overdue && l.overdueAt == l.share.lane.ended }

// push adds a call to those that wait.
func (s *schedule) push(l *line, c *Call) {
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

// queue gives l its turn, if its connection may have one more worker.
func (l *line) queue() {
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

// pop takes the call that has waited longest.
func (s *schedule) pop(l *line) *Call {
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

// unlist takes l out of the lines with calls.
func (s *schedule) unlist(l *line) {
	last := s.waiting[len(s.waiting)-1]
	s.waiting[l.index], last.index = last, l.index
	s.waiting[len(s.waiting)-1] = nil
	s.waiting = s.waiting[:len(s.waiting)-1]
}

// next takes a call that may begin now and counts it, or returns nil. A call of l has just ended
// or come, so that other lines of its connection may go on, then those of its lane, then others.
func (s *schedule) next(l *line) (*line, *Call) {
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
func (s *schedule) nextOf(lane *lane) (*line, *Call) {
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

// nextIn is next within a share that is free.
func (s *schedule) nextIn(sh *share) (*line, *Call) {
	for len(sh.turn) > 0 {
		l := sh.turn[0]
		sh.turn = slices.Delete(sh.turn, 0, 1)
		if l.inTurn = false; l.head == nil || !l.free() {
			continue // another lane of the connection has taken what it may have; see next
		}
		c := s.pop(l)
		s.begin(l)
		l.queue()
		return l, c
	}
	return nil, nil
}

// takeAll takes all calls that wait in l for which want is true, as a list.
func (s *schedule) takeAll(l *line, want func(*Call) bool) (out *Call) {
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
		l.share.turn = slices.DeleteFunc(l.share.turn, func(o *line) bool { return o == l })
		if sh := l.share; len(sh.turn) == 0 {
			sh.inTurn = false
			sh.lane.turn = slices.DeleteFunc(sh.lane.turn, func(o *share) bool { return o == sh })
		}
	}
	for keep != nil {
		c := keep
		keep, c.next = c.next, nil
		s.push(l, c)
	}
	return out
}
