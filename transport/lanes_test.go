// Sharing workers: stuck lanes, clients and connections leave some workers to others.

package transport

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// A board is a schedule without workers: the test begins and ends calls.
type board struct {
	*testing.T
	schedule
	workers int
	ran     []*Call // begun calls, in order
}

func newBoard(t *testing.T, workers, reserve int, names ...string) *board {
	b := &board{T: t, workers: workers}
	b.init(workers, reserve, names)
	return b
}

// conn returns a new connection of client n with 64 concurrent calls in a lane, 128 in all.
func (b *board) conn(n int) *connQueues {
	c := &connQueues{most: 64, slots: 128}
	key := clientKey{host: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 32)}
	b.join(c, key)
	return c
}

// call makes a call arrive on a connection, and reports whether it has a worker.
func (b *board) call(conn *connQueues, lane int) bool {
	b.Helper()
	c := &Call{}
	l := b.queueOf(conn, lane)
	if l.head == nil && b.mayBegin(l) {
		b.begin(l)
		b.ran = append(b.ran, c)
		b.check()
		return true
	}
	b.push(l, c)
	b.check()
	return false
}

// finish ends a call of l and begins those that may.
func (b *board) finish(l *connQueue) {
	b.Helper()
	b.end(l)
	for {
		_, c := b.next(l)
		if c == nil {
			break
		}
		b.ran = append(b.ran, c)
	}
	b.check()
}

// check compares the schedule with its own counts.
func (b *board) check() {
	b.Helper()
	running, beyond := 0, 0
	for i := range b.lanes {
		running += b.lanes[i].running
		beyond += max(0, b.lanes[i].running-b.reserve)
	}
	if running > b.workers || b.spare != b.workers-len(b.lanes)*b.reserve-beyond || b.spare < 0 {
		b.Fatalf("%d of %d workers run, %d beyond what lanes have to themselves, %d are spare", running, b.workers, beyond, b.spare)
	}
	for _, l := range b.waiting {
		if b.mayBegin(l) {
			b.Fatal("a call waits that may begin")
		}
	}
}

// Stuck lanes, full of clients and connections, leave workers to the next.
func TestHungLanesLeaveWorkers(t *testing.T) {
	b := newBoard(t, 256, 8, "a", "b", "c", "d", "e", "f")
	var got []int
	for lane := 1; lane <= 6; lane++ {
		for n := range 200 {
			conn := b.conn(n)
			for range 64 {
				b.call(conn, lane)
			}
		}
		got = append(got, b.lanes[lane].running)
	}
	if got[0] > 128 || got[0] < 64 || got[5] < 8 {
		t.Errorf("six lanes got %d workers", got)
	}
	if !b.call(b.conn(1), 0) {
		t.Error("a call that waits for nothing in particular got no worker")
	}
}

// A stuck client leaves some of the lane's workers to others, with any number of connections.
func TestHungClientsLeaveWorkers(t *testing.T) {
	b := newBoard(t, 256, 8, "a")
	for client := range 5 {
		for range 20 {
			conn := b.conn(client)
			for range 64 {
				b.call(conn, 1)
			}
		}
		if n := b.queueOf(b.conn(client), 1).share.running; n == 0 || client == 0 && n > 70 {
			t.Errorf("client %d has %d workers of %d", client, n, b.lanes[1].running)
		}
	}
}

// A connection with stuck calls in one lane may run calls in others.
func TestHungConnectionLeavesSlots(t *testing.T) {
	b := newBoard(t, 1024, 8, "a", "b", "c")
	conn := b.conn(1)
	for lane, want := range []int{1: 64, 2: 32, 3: 16} {
		n := 0
		for range 128 {
			if want > 0 && b.call(conn, lane) {
				n++
			}
		}
		if n != want {
			t.Errorf("lane %d: %d calls run, want %d", lane, n, want)
		}
	}
}

// Waiting calls get workers in turn: clients first, then their connections, each one's calls in
// order.
func TestWorkersGoInTurn(t *testing.T) {
	b := newBoard(t, 2, 1)
	blocker := b.queueOf(b.conn(9), 0)
	b.call(blocker.conn, 0)
	other := b.queueOf(b.conn(8), 0)
	b.call(other.conn, 0)
	many := []*connQueues{b.conn(1), b.conn(1), b.conn(1)}
	one := b.conn(2)
	name := map[*connQueues]string{many[0]: "1a", many[1]: "1b", many[2]: "1c", one: "2"}
	for range 2 {
		for _, conn := range append(many, one) {
			b.call(conn, 0)
		}
	}
	var order []string
	for l := blocker; l != nil; {
		b.end(l)
		next, c := b.next(l)
		if c != nil {
			order = append(order, name[next.conn])
		}
		l = next
	}
	want := "[1a 2 1b 2 1c 1a 1b 1c]"
	if got := sprint(order); got != want {
		t.Errorf("in the order %s, want %s", got, want)
	}
}

func sprint(list []string) string {
	s := "["
	for i, v := range list {
		if i > 0 {
			s += " "
		}
		s += v
	}
	return s + "]"
}

// With random arrivals and ends, counts are right, no permitted call waits, and in the end all
// have run. check runs after each step.
func TestScheduleAtRandom(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		b := newBoard(t, 8+rnd.IntN(40), 1+rnd.IntN(4), "a", "b", "c")
		var conns []*connQueues
		for range 1 + rnd.IntN(12) {
			c := b.conn(rnd.IntN(4))
			c.most, c.slots = 1+rnd.IntN(8), 1+rnd.IntN(16)
			conns = append(conns, c)
		}
		running := func() (all []*connQueue) {
			for _, c := range conns {
				for _, l := range c.byLane {
					for i := 0; l != nil && i < l.running; i++ {
						all = append(all, l)
					}
				}
			}
			return all
		}
		calls, taken := 0, 0
		for range 500 {
			switch all := running(); {
			case rnd.IntN(20) == 0:
				c := conns[rnd.IntN(len(conns))]
				l := b.queueOf(c, rnd.IntN(4))
				for c := b.takeAll(l, func(*Call) bool { return rnd.IntN(2) == 0 }); c != nil; c = c.next {
					taken++
				}
				b.check()
			case rnd.IntN(2) == 0 || len(all) == 0:
				b.call(conns[rnd.IntN(len(conns))], rnd.IntN(4))
				calls++
			default:
				b.finish(all[rnd.IntN(len(all))])
			}
		}
		for all := running(); len(all) > 0; all = running() {
			b.finish(all[0])
		}
		if len(b.ran)+taken != calls || len(b.waiting) != 0 {
			t.Fatalf("seed %d: %d calls, %d ran and %d were taken back, %d lines wait", seed, calls, len(b.ran), taken, len(b.waiting))
		}
		for _, c := range conns {
			b.leave(c)
		}
		if len(b.clients) != 0 {
			t.Fatalf("%d clients are kept", len(b.clients))
		}
	}
}

// A call allocates nothing, whether it waits or not.
func TestScheduleAllocations(t *testing.T) {
	b := newBoard(t, 2, 1)
	conn := b.conn(1)
	l := b.queueOf(conn, 0)
	calls := make([]Call, 3)
	if n := testing.AllocsPerRun(100, func() {
		b.begin(l)
		for i := range calls {
			b.push(l, &calls[i])
		}
		for end := l; end != nil; {
			b.end(end)
			end, _ = b.next(end)
		}
	}); n != 0 || l.waiting != 0 {
		t.Errorf("%v allocations, %d calls left", n, l.waiting)
	}
}

// A queue's time is when its last call began or ended.
func TestQueueTime(t *testing.T) {
	b := newBoard(t, 2, 1)
	conn := b.conn(1)
	b.call(conn, 0)
	for range 3 {
		b.call(conn, 0)
	}
	l := b.queueOf(conn, 0)
	was := time.Now().Add(-time.Hour)
	l.since, l.overdue = was, true
	b.finish(l)
	if l.since == was || l.overdue {
		t.Error("a call has ended, and the line is said to stand still")
	}
}

// TestAddedLane: a lane added while calls run gets its own workers and a share of the others, like
// earlier lanes, once calls have ended. It has the name given to it last.
func TestAddedLane(t *testing.T) {
	b := newBoard(t, 16, 8, "a")
	one, two := b.conn(1), b.conn(2)
	for range 64 {
		b.call(one, 1)
		b.call(two, 1)
	}
	took := b.lanes[1].running
	b.name(2, "b")
	b.name(3, "c")
	b.name(2, "other")
	if len(b.lanes) != 4 || b.lanes[2].name != "other" || b.lanes[3].name != "c" {
		t.Fatalf("%d lanes, %q, %q", len(b.lanes), b.lanes[2].name, b.lanes[3].name)
	}
	l, sum := b.queueOf(one, 2), 0
	for b.mayBegin(l) {
		b.begin(l)
		sum++
	}
	if sum < b.reserve {
		t.Errorf("a lane that came has %d workers, %d are its own", sum, b.reserve)
	}
	for range sum {
		b.end(l)
	}
	for b.lanes[1].running > b.reserve { // calls of the lane with more workers than there are now
		for _, conn := range []*connQueues{one, two} {
			if line := b.queueOf(conn, 1); line.running > 0 {
				b.end(line)
			}
		}
	}
	beyond := 0
	for _, lane := range b.lanes {
		beyond += max(0, lane.running-b.reserve)
	}
	if took <= b.reserve || b.spare != 16-4*b.reserve-beyond || b.spare < 0 {
		t.Errorf("%d had a worker; %d spare, %d beyond", took, b.spare, beyond)
	}
}
