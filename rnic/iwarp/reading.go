// Who runs the receive side: the receive loop, or a goroutine that waits for what comes.

package iwarp

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/rnic"
)

var _ rnic.Scheduler = (*stream)(nil)

// A reader is who runs the receive side of a stream.
type reader = int32

const (
	readLoop   reader = iota // the receive loop: it works, or waits for the socket
	readEnding               // the same, with the last batch before it rests
	readNobody               // the receive loop rests: nothing is outstanding, and the next call drives
	readDriver               // a goroutine in Drive
	readRecall               // the same, and it has been asked to leave
	readers
)

// The arrows of the drawing: readerNext[r] is who can follow r.
var readerNext = [readers][]reader{
	readLoop:   {readEnding},
	readEnding: {readNobody},
	readNobody: {readDriver, readLoop},
	readDriver: {readNobody, readRecall, readLoop},
	readRecall: {readLoop},
}

// onReader is told of each change; tests hold them against readerNext. It is written before the
// first stream is made, and nil in programs.
var onReader func(from, to reader)

const (
	// restTick is how long the receive loop rests between two looks. It bounds how late the end of
	// an idle stream is seen, and how long a caller whose answer is slow cannot be interrupted: two
	// of them.
	restTick = 10 * time.Millisecond

	// endingTurns is how often a caller gives way to a receive loop that is about to rest, before
	// it sleeps as ever.
	endingTurns = 50
)

// A reading is the right to run the receive side of one stream. Exactly one goroutine has it. A
// caller that is alone and runs it itself, instead of waiting for a loop to wake it, saves two
// changes of goroutine for each round trip, and each of them wakes a sleeping processor.
//
//	            ending      ┌──────────┐ offer               take
//	┌──────────┐ ─────────► │  ending  │ ─────► ┌──────────┐ ─────► ┌──────────┐
//	│   loop   │            └──────────┘        │  nobody  │        │  driver  │
//	└──────────┘ ◄───────────────────────────── └──────────┘ ◄───── └──────────┘
//	     ▲  ▲              reclaim                           leave    │      │
//	     │  └────────────────────── handBack ────────────────────────┘      │ recall
//	     │                                           ┌──────────┐           │
//	     └────────────── handBack ────────────────── │  recall  │ ◄─────────┘
//	                                                 └──────────┘
//
// take, leave and handBack are a driver's; the others are the receive loop's alone.
type reading struct {
	state  atomic.Int32  // a reader
	wishes atomic.Int32  // of callers that would have driven
	slow   wait.Backoff  // passes over wishes after a driver had to be recalled: its answers are slow, and driving wins nothing with those
	claims atomic.Int32  // callers in take
	drives atomic.Uint32 // how many have begun
	tally  tally.Counter // won and lost; see AddTo
	back   chan struct{} // one token: a driver has handed back
	poke   chan struct{} // one token: the receive loop is to work again

	// Owned by who has the right; the token of back passes it on.
	err error // that ended the input, for the receive loop

	tick *time.Timer // of a loop that rests; owned by the receive loop, nil before the first rest
}

func (r *reading) init() { r.back, r.poke = make(chan struct{}, 1), make(chan struct{}, 1) }

// pass gives the right from one to another, and reports whether the one had it.
func (r *reading) pass(from, to reader) bool {
	if !r.state.CompareAndSwap(from, to) {
		return false
	}
	if onReader != nil {
		onReader(from, to)
	}
	return true
}

// put gives the right away; the caller has it.
func (r *reading) put(to reader) {
	if from := r.state.Swap(to); onReader != nil {
		onReader(from, to)
	}
}

// ending tells callers, if one of them would drive, that they can after the batch that is next.
func (r *reading) ending() bool {
	if r.wishes.Load() == 0 {
		return false
	}
	r.put(readEnding)
	return true
}

// offer leaves the right to whoever takes it.
func (r *reading) offer() {
	select {
	case <-r.poke: // meant for an earlier time
	default:
	}
	r.wishes.Store(0)
	r.put(readNobody)
}

// take is for a caller that would drive. The receive loop has woken it before it has done all that
// its batch asks for: so it is given the time for that.
func (r *reading) take() bool {
	r.claims.Add(1)
	defer r.claims.Add(-1)
	for i := 0; i < endingTurns && r.state.Load() == readEnding; i++ {
		runtime.Gosched()
	}
	if r.pass(readNobody, readDriver) {
		r.drives.Add(1)
		return true
	}
	if r.state.Load() == readLoop && !r.slow.Pass() {
		r.wishes.Add(1)
	}
	return false
}

// yield gives callers in take, for whom the right has been offered, the time to take it.
func (r *reading) yield() {
	for i := 0; i < endingTurns && r.claims.Load() > 0 && r.state.Load() == readNobody; i++ {
		runtime.Gosched()
	}
}

// leave ends a drive; false: the right has to be handed back.
func (r *reading) leave() bool {
	if !r.pass(readDriver, readNobody) {
		return false
	}
	r.tally.Win()
	return true
}

// handBack gives the right to the receive loop, with the error that ended the input, if any.
func (r *reading) handBack(err error) {
	r.err = err
	r.tally.Lose()
	r.put(readLoop)
	r.back <- struct{}{}
}

// reclaim takes the right if nobody has it.
func (r *reading) reclaim() bool { return r.pass(readNobody, readLoop) }

// recall asks a driver to leave, and reports whether there is one.
func (r *reading) recall() bool { return r.pass(readDriver, readRecall) }

// recalled reports whether a driver has to leave.
func (r *reading) recalled() bool { return r.state.Load() == readRecall }

// AddTo implements tally.Source. A drive is won if the driver leaves by itself, and lost if it
// hands the right back; a caller that the backoff keeps from driving is passed.
func (r *reading) AddTo(t tally.Table) {
	c := r.tally.Counts()
	c.Passed = r.slow.Passed()
	t.Add("drive", c)
}

// rouse has the receive loop work again, if it rests.
func (r *reading) rouse() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// begin starts the clock of a rest, which is made once.
func (r *reading) begin() *time.Timer {
	if r.tick == nil {
		r.tick = time.NewTimer(restTick)
	} else {
		r.tick.Reset(restTick)
	}
	return r.tick
}

// Drive is as rnic.Scheduler has it.
func (s *stream) Drive(done func() bool) {
	if s.waiting == nil || !s.reading.take() {
		return
	}
	s.rx.keep = s.p.cfg.KeepThreads
	for {
		// Asked for before done: where another goroutine runs the handlers, it may have the answer,
		// that was read by whoever was here before or by us, and nothing more would come.
		handling := s.q.Handling()
		if done() {
			break
		}
		var err error
		if handling {
			runtime.Gosched() // a handler does not wait
		} else if err = s.rx.fill(s.link); err == nil {
			s.digest(done)
		}
		if err != nil || s.reading.recalled() {
			s.rx.keep = false
			s.reading.handBack(err)
			return
		}
	}
	s.rx.keep = false
	if !s.reading.leave() {
		s.reading.handBack(nil)
		return
	}
	// Asked for afterwards: who began to wait before found a driver here, and does not drive
	// himself.
	if s.waiting() {
		s.reading.rouse()
	}
}

// Rouse is as rnic.Scheduler has it.
func (s *stream) Rouse() {
	if s.reading.state.Load() == readNobody {
		s.reading.rouse()
	}
}

// rest leaves the receive side to callers until it is needed here again. Its error is of the input.
func (s *stream) rest() error {
	woken := s.rx.woken
	s.rx.woken = false // a driver has the receive side once it is offered
	s.reading.offer()
	// A goroutine that waited for completions still counts as waiting until it has run, and may be
	// about to drive. Where Go's scheduler has one processor it cannot have run, nor be in take:
	// the right would be reclaimed each time, and nobody would ever drive.
	if woken {
		runtime.Gosched()
	}
	// Asked for afterwards, as in Drive; and so is whether end has already told that it needs the
	// input.
	if s.waiting() || s.q.Failed() {
		s.reading.yield() // who waits may be about to drive, and then reads for all
		if s.reading.reclaim() {
			return nil
		}
	}
	tick := s.reading.begin()
	defer tick.Stop()
	for last := s.reading.drives.Load(); ; tick.Reset(restTick) {
		needed := false
		select {
		case <-s.reading.back:
			return s.inputOf(s.reading.err)
		case <-s.reading.poke:
			needed = true
		case <-tick.C:
		}
		now := s.reading.drives.Load()
		switch {
		case now != last && !needed:
			last = now
		case s.reading.reclaim():
			return nil
		case s.reading.recall():
			return s.recallDriver()
		}
	}
}

// recallDriver interrupts the wait of a driver, which then hands back. The end of the stream sets
// deadlines too, so it is done again until the driver has seen it.
func (s *stream) recallDriver() error {
	s.reading.slow.Start()
	for {
		s.reading.tick.Reset(restTick)
		s.link.conn().SetReadDeadline(past)
		select {
		case <-s.reading.back:
			return s.inputOf(s.reading.err)
		case <-s.reading.tick.C:
		}
	}
}

// inputOf is the error of a driver's read but for an interruption, of which nothing is left
// afterwards.
func (s *stream) inputOf(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quick { // nothing is read any more
		return err
	}
	until := time.Time{}
	if s.q.Failed() {
		until = time.Now().Add(lingerTime)
	}
	s.link.conn().SetReadDeadline(until)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}
