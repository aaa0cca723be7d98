// Calls that run where they arrive, and the follower when they wait.

package transport

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// Procedures of a waiting program, besides NULL. The argument is in microseconds.
const (
	bLong   = 1 + iota // busy, then waits
	bShort             // busy shortly, then waits
	bSilent            // waits
	bBusy              // not Inline: waits
	bBuffer            // waits for memory, then for that time
	bShed              // like bLong, without an answer for waiting calls
	bLate              // waits, then is busy, without an answer for waiting calls
	bProcs
)

// A busyProgram has one lane.
type busyProgram struct{ ran [bProcs]atomic.Int32 }

func (b *busyProgram) program() *Program {
	p := &Program{Name: "busy", Number: testProg, Version: testVers, Lanes: []string{"disk"}, Procs: make([]Procedure, bProcs)}
	for i := range p.Procs {
		p.Procs[i] = Procedure{Name: fmt.Sprint("BUSY", i), Inline: i != bBusy, Idempotent: true,
			Lane: func(*Call) int { return 0 }, Busy: func(c *Call) { c.Res.Uint32(resBusy) },
			Run: func(c *Call) error { return b.run(c, i) }}
	}
	p.Procs[bShed].Busy, p.Procs[bLate].Busy = nil, nil
	return p
}

func (b *busyProgram) run(c *Call, i int) (err error) {
	if i > 0 {
		pause := time.Duration(c.Args.Uint32()) * time.Microsecond
		switch i {
		case bLong, bShed:
			err = c.Busy()
		case bShort:
			err = c.BusyShortly()
		case bBuffer:
			if c.Buffer(16) == nil {
				err = ErrShed
			}
		}
		if err != nil {
			return err
		}
		time.Sleep(pause)
		if i == bLate {
			if err := c.Busy(); err != nil {
				return err
			}
		}
	}
	b.ran[i].Add(1)
	c.Res.Uint32(resDone)
	return nil
}

// A loopTape is a tape with a receiver, whose followers are counted and do nothing.
type loopTape struct {
	*tape
	s         *Server
	prog      *busyProgram
	followers atomic.Int32
	wg        sync.WaitGroup
}

// inLoop runs a test with a loopTape, in simulated time.
func inLoop(t *testing.T, f func(t *testing.T, l *loopTape)) {
	synctest.Test(t, func(t *testing.T) {
		l := &loopTape{tape: newTape("10.0.0.1"), prog: new(busyProgram)}
		l.s = NewServer(ServerConfig{}, l.prog.program())
		l.receiver = new(receiver)
		l.receiver.init(&l.s.pool, func() { l.followers.Add(1) })
		f(t, l)
		l.wg.Wait()
		l.s.pool.withdraw(&l.work)
		if err := l.s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// call makes a new call on the leader's goroutine, and expects leads at its end.
func (l *loopTape) call(t *testing.T, proc uint32, micros uint32, leads bool) {
	t.Helper()
	l.wg.Go(func() {
		if got := l.start(l.s, callOf(7, proc, micros)); got != leads {
			t.Errorf("procedure %d leads at its end: %v, want %v", proc, got, leads)
		}
	})
	synctest.Wait()
}

// want compares the numbers of followers, and of calls with a share of the lane.
func (l *loopTape) want(t *testing.T, when string, followers int32, running int) {
	t.Helper()
	synctest.Wait()
	l.s.pool.mu.Lock()
	defer l.s.pool.mu.Unlock()
	if got := l.followers.Load(); got != followers || l.work.running != running {
		t.Errorf("%s: %d followers, %d calls with a share, want %d and %d", when, got, l.work.running, followers, running)
	}
}

const millisecond = 1000 // in microseconds

// TestBusyMovesTheRight: a busy call has a follower at once, and a share of its lane until it
// ends; another call has neither. The busy call's goroutine does not lead at its end.
func TestBusyMovesTheRight(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		l.call(t, 0, 0, true)
		l.expect(t, "not busy", 0, resDone)
		l.want(t, "not busy", 0, 0)
		l.call(t, bLong, 10*millisecond, false)
		l.want(t, "busy", 1, 1)
		if l.uncorked != 1 {
			t.Errorf("replies were uncorked %d times, want 1", l.uncorked)
		}
		l.call(t, 0, 0, true) // by the follower
		l.expect(t, "beside it", 0, resDone)
		l.expect(t, "its end", 10*time.Millisecond, resDone)
		l.want(t, "its end", 1, 0)
	})
}

// TestShortCallsKeepTheRight: briefly busy calls, and calls that come one by one, have a share
// but no follower. The clock detects those that take long in fact, and after one of these the next
// calls have followers. A call that is never busy keeps the right, however long it takes.
func TestShortCallsKeepTheRight(t *testing.T) {
	for _, alone := range []bool{false, true} {
		for _, proc := range []uint32{bLong, bShort, bSilent, bBusy} {
			inLoop(t, func(t *testing.T, l *loopTape) {
				for range lead.AloneMin {
					l.receiver.row.Count(!alone)
				}
				shares, stays := 1, proc == bSilent || proc == bShort || alone
				if proc == bSilent {
					shares = 0
				}
				if proc == bBusy && !alone { // a worker runs it
					l.call(t, proc, 50, true)
					l.want(t, "by a worker", 0, 1)
					time.Sleep(time.Second)
					l.expect(t, "its end", 0, resDone)
					return
				}
				followers := int32(1)
				if stays {
					followers = 0
				}
				l.call(t, proc, 50, stays)
				l.want(t, fmt.Sprintf("procedure %d, alone %v", proc, alone), followers, shares)
				l.expect(t, "its end", time.Second, resDone)
				if !stays {
					return
				}
				found := int32(1)
				if proc == bSilent {
					found = 0
				}
				l.call(t, proc, 10*millisecond, found == 0)
				time.Sleep(2*lead.Tick - 1)
				l.want(t, "before the clock finds it", 0, shares)
				time.Sleep(time.Nanosecond)
				l.want(t, "found by the clock", found, shares)
				l.expect(t, "its end", time.Second, resDone)
				if proc == bShort {
					l.call(t, proc, 50, false)
					l.want(t, "the next one", 2, 1)
					l.expect(t, "its end", time.Second, resDone)
				}
			})
		}
	}
}

// TestHeldUp: after a call that keeps the right for 100 µs while others wait, the next calls pass
// the right on for a while. A shorter call, or one for which no other waits, has no such effect.
func TestHeldUp(t *testing.T) {
	for _, row := range []struct {
		micros      uint32
		more, waits bool
		want        bool
	}{{99, true, true, false}, {100, false, false, false}, {100, true, false, true}, {100, false, true, true}} {
		inLoop(t, func(t *testing.T, l *loopTape) {
			l.more, l.waits = row.more, row.waits
			l.call(t, bShort, row.micros, true)
			if l.uncorked > 0 {
				t.Errorf("%+v: a short call uncorks the replies before it", row)
			}
			l.expect(t, "its end", time.Second, resDone)
			if got := l.receiver.lead.Backoff.Active(); got != row.want {
				t.Errorf("%+v: the backoff is active: %v", row, got)
			}
			passed := 0
			for l.receiver.lead.Backoff.Pass() {
				passed++
			}
			if row.want && passed != wait.Passes {
				t.Errorf("%d calls pass the right on, want %d", passed, wait.Passes)
			}
		})
	}
}

// TestMoreIsCorked: a busy call leaves the replies before it to the follower, which has more calls.
func TestMoreIsCorked(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		l.more = true
		l.call(t, bLong, 0, false)
		if l.expect(t, "its end", time.Second, resDone); l.uncorked > 0 {
			t.Error("it uncorks them")
		}
	})
}

// TestOthersLoop: on a goroutine that receives for several connections no call keeps the right.
func TestOthersLoop(t *testing.T) {
	var h receiver
	for range lead.AloneMin {
		h.row.Count(false)
	}
	for _, short := range []bool{false, true} {
		if h.stays(&Call{}, short) || !h.stays(&Call{ownLoop: true}, short) {
			t.Errorf("short %v: the right is kept on the loop of others, or not on its own", short)
		}
	}
}

// TestBusyWaitsForItsLane: a call without a share waits for one on its goroutine, until another
// call ends. The connection's other calls do not wait for it.
func TestBusyWaitsForItsLane(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		for range 6 { // the connection has 4 shares
			l.call(t, bLong, 1000*millisecond, false)
		}
		l.want(t, "six calls", 6, 4)
		l.call(t, 0, 0, true)
		l.expect(t, "beside them", 0, resDone)
		l.expect(t, "the first", time.Second, resDone, resDone, resDone, resDone)
		l.want(t, "the last", 6, 2)
		l.expect(t, "the last", time.Second, resDone, resDone)
		l.want(t, "at the end", 6, 0)
	})
}

// TestBusyIsShed: calls that wait for their lane in vain are answered with "retry", and later
// ones at once, without moving the right; those without an answer wait.
func TestBusyIsShed(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		for range 4 {
			l.call(t, bLong, 20_000*millisecond, false)
		}
		l.call(t, bLong, 0, false)
		l.call(t, bBuffer, 0, true) // there is memory
		l.call(t, bShed, 0, false)
		l.expect(t, "after the wait", 2*queueWait, resDone, resBusy)
		l.want(t, "after the wait", 6, 4)
		l.call(t, bLong, 0, true)
		l.expect(t, "then", 0, resBusy)
		l.expect(t, "the others", 20*time.Second, resDone, resDone, resDone, resDone, resDone)
		if n := l.prog.ran[bLong].Load() + l.prog.ran[bShed].Load(); n != 5 {
			t.Errorf("%d calls were done, want 5", n)
		}
	})
}

// TestBusyAtTheEnd: a call that waits for its lane when its connection ends continues at once,
// and is not executed.
func TestBusyAtTheEnd(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		for range 5 {
			l.call(t, bShed, 20_000*millisecond, false)
		}
		l.s.pool.withdraw(&l.work)
		synctest.Wait()
		if e := <-l.ends; e.how != "reply" || e.reply[23] == 0 {
			t.Errorf("the call that waited: %s %x, want an error", e.how, e.reply)
		}
		l.expect(t, "the others", 20*time.Second, resDone, resDone, resDone, resDone)
	})
}

// TestBusyAfterTheEnd: a call that is busy only after its connection has ended does not wait for
// its lane.
func TestBusyAfterTheEnd(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		for range 4 {
			l.call(t, bLong, 20_000*millisecond, false)
		}
		l.call(t, bLate, 1000*millisecond, true)
		l.s.pool.withdraw(&l.work)
		l.expect(t, "before it is busy", time.Second-1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		select {
		case e := <-l.ends:
			if e.how != "reply" || e.reply[23] == 0 {
				t.Errorf("the call that came late: %s %x, want an error", e.how, e.reply)
			}
		default:
			t.Error("the call waits for its lane, want its end")
		}
		l.expect(t, "the others", 20*time.Second, resDone, resDone, resDone, resDone)
	})
}

// TestNothingRunsAfterTheEnd: calls that came before their connection has ended, and have not begun
// then, are dropped. Those that wait for their lane do nothing more, even if they get a share.
func TestNothingRunsAfterTheEnd(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		ctx, cancel := context.WithCancel(context.Background())
		l.ctx = ctx
		for range 5 {
			l.call(t, bLong, 1000*millisecond, false)
		}
		cancel()
		for range lead.AloneMin {
			l.receiver.row.Count(false)
		}
		for proc := range uint32(bProcs) {
			l.call(t, proc, 50, true)
			l.expect(t, "at the end", 0, "drop")
		}
		time.Sleep(2 * time.Second)
		l.want(t, "then", 5, 0)
		got := map[any]int{}
		for range 5 {
			got[l.result()]++
		}
		if want := map[any]int{resDone: 4, resBusy: 1}; !maps.Equal(got, want) {
			t.Errorf("ends of the calls that had begun: %v, want %v", got, want)
		}
		if n := l.prog.ran[bLong].Load(); n != 4 {
			t.Errorf("%d calls were done, want 4", n)
		}
		if n := l.s.pool.lanes[1].inside.Load(); n != 0 {
			t.Errorf("%d calls are inside their procedures, want 0", n)
		}
	})
}

// TestFewCallsAreParked: of many calls that wait for their lane only some wait with a goroutine.
// The others have not begun.
func TestFewCallsAreParked(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		var results []any
		for range 4 + maxParked {
			l.call(t, bLong, 1000*millisecond, false)
			results = append(results, resDone)
		}
		l.want(t, "with a share, or parked", 4+maxParked, 4)
		for range 20 {
			l.call(t, bLong, 1000*millisecond, true)
			results = append(results, resDone)
		}
		l.want(t, "with 20 more", 4+maxParked, 4)
		l.expect(t, "at the end", 10*time.Second, results...)
		if n := l.receiver.parked.Load(); n != 0 {
			t.Errorf("%d calls are parked at the end, want 0", n)
		}
	})
}

// TestQueuedBeforeItBegins: a call busy from the start and without a share waits without a
// goroutine.
func TestQueuedBeforeItBegins(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loopTape) {
		for range lead.AloneMin {
			l.receiver.row.Count(false)
		}
		for range 4 {
			l.call(t, bLong, 1000*millisecond, false)
			time.Sleep(3 * lead.Tick) // the clock moves the right
			l.receiver.lead.Backoff.Skip(0)
		}
		l.call(t, bBusy, 50, true)
		l.want(t, "five calls", 4, 4)
		l.expect(t, "at the end", 10*time.Second, resDone, resDone, resDone, resDone, resDone)
	})
}

// TestBusyAllocates: neither keeping nor moving the right allocates.
func TestBusyAllocates(t *testing.T) {
	via := newTape("10.0.0.1")
	var h receiver
	s := &dispatcher{}
	followed := make(chan struct{})
	s.pool.init(100, 8, nil)
	defer func() { s.pool.close(true) }()
	s.pool.join(&via.work, via.peer.client())
	h.init(&s.pool, func() { followed <- struct{}{} })
	h.lead.Init(lead.NewClock(time.Hour), func() { s.pool.follow(h.follow) }) // no clock
	for _, short := range []bool{true, false} {
		call := func() {
			c := getCall(via)
			c.here, c.ownLoop = &h, true
			run := h.lead.Begin()
			c.run = run
			c.become(standsHere)
			if err := c.busy(short); err != nil {
				t.Fatal(err)
			}
			l := c.queue
			c.recycle()
			if !short {
				<-followed
			}
			h.lead.End(run)
			s.pool.release(l)
		}
		call()
		if n := testing.AllocsPerRun(200, call); n != 0 && !raceEnabled {
			t.Errorf("short %v: %v allocations for each call, want 0", short, n)
		}
	}
}

// arrowsSeen counts the arrows in standingNext that the tests take.
var arrowsSeen = struct {
	sync.Mutex
	n map[[2]standing]int
}{n: map[[2]standing]int{}}

func watchStandings() {
	onStanding = func(from, to standing) {
		if !slices.Contains(standingNext[from], to) {
			panic(fmt.Sprintf("a call cannot go from %d to %d", from, to))
		}
		arrowsSeen.Lock()
		arrowsSeen.n[[2]standing{from, to}]++
		arrowsSeen.Unlock()
	}
}

// unseenStandings returns 1 if the drawing has an arrow that no test has taken.
func unseenStandings() (code int) {
	arrowsSeen.Lock()
	defer arrowsSeen.Unlock()
	for from, next := range standingNext {
		for _, to := range next {
			if arrowsSeen.n[[2]standing{standing(from), to}] == 0 {
				fmt.Printf("no test has taken a call from %d to %d\n", from, to)
				code = 1
			}
		}
	}
	return code
}
