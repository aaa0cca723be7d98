// Spinning: a receiver that found nothing reads again for a while.

// Package rxwait is how a receiver waits for input that is about to come: it spins ([Spinner]),
// then blocks its thread ([Blocker]), and only then parks its goroutine. It serves the receive
// loops of all providers, and callers that receive by themselves.
package rxwait

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// spinning counts this process's receivers that spin or have a blocked thread.
var spinning atomic.Int32

// Spinning returns the number of receivers in this process that spin or have a blocked thread.
func Spinning() int { return int(spinning.Load()) }

// A Spinner decides whether a receiver that found nothing reads again at once. The reply to a
// message just sent often comes sooner than a processor could be put to sleep and woken. Spinning
// is for idle processors only: where another thread takes the processor, or where nothing comes in
// time, a backoff makes the next waits skip it. All methods are for the receiver.
type Spinner struct {
	active  bool
	since   time.Time     // of the first read, when active
	last    time.Time     // and of the latest one
	yielded time.Time     // of the latest yield to goroutines of this process
	credit  time.Duration // earned by spins that found input, and not yet spent on preemptions
	backoff wait.Backoff
	most    limit // of spinning; set once
	tally   tally.Counter
}

// AddTo implements tally.Source. A spin is won with input. It is lost with none, or with a
// preemption. A wait without a spin is passed.
func (l *Spinner) AddTo(t tally.Table) { t.Add("spin", l.tally.Counts()) }

// NewSpinner returns a Spinner. Half of the processors spin at most, because goroutines that have
// work need the others; with one processor none does.
func NewSpinner() Spinner { return Spinner{most: halfOfProcs} }

// halfOfProcs is half of GOMAXPROCS, which a program may change, as of at most procsPeriod ago.
func halfOfProcs() int32 {
	now := int64(time.Since(epoch))
	if last := asked.at.Load(); now-last >= int64(procsPeriod) && asked.at.CompareAndSwap(last, now) {
		asked.half.Store(int32(runtime.GOMAXPROCS(0) / 2))
	}
	return asked.half.Load()
}

var (
	epoch = time.Now().Add(-procsPeriod)
	asked struct {
		at   atomic.Int64 // since epoch
		half atomic.Int32
	}
)

// A limit returns a bound of spinning; nil: no receiver spins or blocks.
type limit func() int32

func (l limit) now() int32 {
	if l == nil {
		return 0
	}
	return l()
}

// Continue reports whether to read once more.
func (l *Spinner) Continue() bool {
	now := time.Now()
	if !l.more(now) {
		return false
	}
	if now.Sub(l.yielded) >= yieldPeriod {
		runtime.Gosched()
		l.yielded = time.Now()
		l.last = l.yielded // the time was this process's own: no preemption
	}
	return true
}

// more reports whether to read once more at a time.
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

// end ends a spin.
func (l *Spinner) end() {
	l.active = false
	spinning.Add(-1)
}

// missed ends a spin without input.
func (l *Spinner) missed() {
	l.end()
	l.tally.Lose()
	l.backoff.Note(false)
}

// preempted ends a spin because another thread had the processor for a time. The credit pays for
// it first, so that a receiver that nearly always finds input goes on spinning.
func (l *Spinner) preempted(took time.Duration) {
	l.end()
	l.tally.Lose()
	took = min(took, preemptionMax)
	l.backoff.Skip(int(max(took-l.credit, 0) / passCost))
	l.credit = max(l.credit-took, 0)
}

// Found ends a spin: there is input, or its end. It follows each Continue that reported true,
// unless another Continue does.
func (l *Spinner) Found() {
	if l.active {
		l.end()
		l.tally.Win()
		l.backoff.Note(true)
		l.credit = min(l.credit+spinGain, creditMax)
	}
}
