// Package look lets a receiver look for input some more before it goes to sleep: the receive loops
// of all providers, and callers that receive for themselves.
package rxwait

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

var spinning atomic.Int32

// Spinning is how many look in this process now.
func Spinning() int { return int(spinning.Load()) }

// A Spinner is how a receiver that has found nothing goes on: it looks again for a while, because
// the answer to what was just sent is often there sooner than a processor could be put to sleep and
// woken. That is for processors that have nothing better to do. Where somebody else takes the
// processor meanwhile, or where nothing comes in time, it sleeps at once for the next few times,
// and for more of them each time in a row.
type Spinner struct {
	active  bool
	since   time.Time     // of the first look, when busy
	last    time.Time     // and of the last one
	yielded time.Time     // when goroutines of this process were last given way to
	credit  time.Duration // by looks that found something, and not lost since to others who had the processor
	backoff wait.Backoff  // how often it sleeps at once from now on
	most    limit         // set once: of lookers
	tally   tally.Counter
}

const (
	// spinTime is how long it looks: several times what a peer works on one packet, and about what
	// it takes to sleep and to be woken.
	spinTime = 50 * time.Microsecond

	// preemptedTime is how long it is from one look to the next when somebody else had the processor in
	// between. That may be for milliseconds, in which a packet would have woken who sleeps.
	// passCost is what that may cost each packet: what a look wins where processors are busy,
	// which is to go to sleep, to be woken, and to wait for a processor then.
	preemptedTime = 20 * time.Microsecond
	passCost      = 8 * time.Microsecond

	// spinGain is what a look wins that finds something, at the least: a part of what it takes to
	// sleep and to be woken. What others take is paid for by that first, so that who finds nearly
	// always goes on looking after a thread has had the processor for a moment. No more than
	// creditMax counts, a time slice of the kernel's.
	spinGain  = 5 * time.Microsecond
	creditMax = 4 * time.Millisecond

	// preemptionMax is the longest of such times that counts: a process that was stopped, or a
	// machine that stood still, has not paid for a look.
	preemptionMax = 100 * time.Millisecond

	// yieldPeriod is how long goroutines that are ready wait at most for one that looks and finds,
	// time and again, if no other processor takes them. To give way to them each time costs more
	// than it is worth: the scheduler wakes a thread for it.
	yieldPeriod = 200 * time.Microsecond
)

// AddTo implements tally.Source. A poll is a burst of looks: it is won with input, and lost with
// none or where the processor was taken; a wait without a look is passed.
func (l *Spinner) AddTo(t tally.Table) { t.Add("poll", l.tally.Counts()) }

// New is ready to look. Half of the processors at most look at the same time, for goroutines that
// have work need the others: where there is but one, nobody looks.
func NewSpinner() Spinner { return Spinner{most: halfOfProcs} }

// half is that number now: a program may have more processors at one time than at another. To ask
// Go's scheduler takes its lock, so it is not asked each time.
func halfOfProcs() int32 {
	now := int64(time.Since(epoch))
	if last := asked.at.Load(); now-last >= int64(procsPeriod) && asked.at.CompareAndSwap(last, now) {
		asked.half.Store(int32(runtime.GOMAXPROCS(0) / 2))
	}
	return asked.half.Load()
}

// procsPeriod is for how long an answer of Go's scheduler holds.
const procsPeriod = time.Millisecond

var (
	epoch = time.Now().Add(-procsPeriod)
	asked struct {
		at   atomic.Int64 // since epoch
		half atomic.Int32
	}
)

// A limit is how many look and sleep at the same time; nil: nobody does.
type limit func() int32

func (l limit) now() int32 {
	if l == nil {
		return 0
	}
	return l()
}

// Continue reports whether to look once more.
func (l *Spinner) Continue() bool {
	now := time.Now()
	if !l.more(now) {
		return false
	}
	if now.Sub(l.yielded) >= yieldPeriod {
		runtime.Gosched()
		l.yielded = time.Now()
		l.last = l.yielded // what took long was of this process
	}
	return true
}

// more reports whether to look once more.
func (l *Spinner) more(now time.Time) bool {
	switch {
	case l.active && now.Sub(l.last) >= preemptedTime:
		l.preempted(now.Sub(l.last))
		return false
	case l.active && now.Sub(l.since) >= spinTime:
		l.missed()
		return false
	case l.active:
		l.last = now
	case l.backoff.Pass():
		l.tally.Pass()
		return false
	case spinning.Add(1) > l.most.now():
		spinning.Add(-1)
		l.tally.Pass()
		return false
	default:
		l.active, l.since, l.last = true, now, now
	}
	return true
}

// end ends looking.
func (l *Spinner) end() {
	l.active = false
	spinning.Add(-1)
}

// missed ends looking, for nothing.
func (l *Spinner) missed() {
	l.end()
	l.tally.Lose()
	l.backoff.Note(false)
}

// taken ends looking, because somebody else had the processor for a time.
func (l *Spinner) preempted(took time.Duration) {
	l.end()
	l.tally.Lose()
	took = min(took, preemptionMax)
	l.backoff.Skip(int(max(took-l.credit, 0) / passCost))
	l.credit = max(l.credit-took, 0)
}

// Found ends looking: there is input, or an end of it. It follows each Continue that reported true,
// unless another Continue does.
func (l *Spinner) Found() {
	if l.active {
		l.end()
		l.tally.Win()
		l.backoff.Note(true)
		l.credit = min(l.credit+spinGain, creditMax)
	}
}
