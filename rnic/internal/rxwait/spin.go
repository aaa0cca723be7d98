// Spinning: a receiver that found nothing reads again for a while.

// Package rxwait lets a receiver wait for input that is about to come: the receiver spins
// ([Spinner]), then blocks its thread ([Blocker]), and only then parks its goroutine. It serves the
// receive loops of all providers, and callers that receive by themselves.
package rxwait

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// spinning counts this process's receivers that spin or have a blocked thread. No Device owns it,
// because all Devices of a process share its processors.
var spinning atomic.Int32

// Spinning returns the number of receivers in this process that spin or have a blocked thread.
func Spinning() int { return int(spinning.Load()) }

// A Spinner decides whether a receiver that found nothing reads again at once. The reply to a
// message just sent often comes sooner than a processor could be put to sleep and woken. Spinning
// is for idle processors only: if another thread takes the processor, or no input comes in time, a
// backoff makes the next waits skip the spin. All methods are for the receiver.
type Spinner struct {
	active  bool
	since   time.Time     // time of the first read, when active
	last    time.Time     // time of the latest read
	yielded time.Time     // time of the latest yield to goroutines of this process
	credit  time.Duration // earned by spins that found input, and not yet spent on preemptions
	backoff wait.Backoff
	most    limit // of spinning; set once
	tally   tally.Counter
}

// AddTo implements tally.Source. A spin is won with input, and lost without input or with a
// preemption. A wait without a spin is passed.
func (l *Spinner) AddTo(t tally.Table) { t.Add("spin", l.tally.Counts()) }

// NewSpinner returns a Spinner. At most half of the processors spin, because goroutines with work
// need the others; a single processor never spins.
func NewSpinner() Spinner { return Spinner{most: halfOfProcs} }

// halfOfProcs returns half of GOMAXPROCS, read at most procsPeriod ago, because a program may
// change it.
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

// A limit returns the largest number of spinning receivers; nil: no receiver spins or blocks.
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
		l.last = l.yielded // goroutines of this process had the processor: no preemption
	}
	return true
}

// more reports whether to read once more at the time now.
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

// preempted ends a spin because another thread had the processor for the time took. The credit pays
// for the preemption first, so that a receiver that nearly always finds input continues to spin.
func (l *Spinner) preempted(took time.Duration) {
	l.end()
	l.tally.Lose()
	took = min(took, preemptionMax)
	l.backoff.Skip(int(max(took-l.credit, 0) / passCost))
	l.credit = max(l.credit-took, 0)
}

// Found ends a spin: there is input, or the end of input. After a Continue that reported true, the
// receiver calls Found, or Continue again.
func (l *Spinner) Found() {
	if l.active {
		l.end()
		l.tally.Win()
		l.backoff.Note(true)
		l.credit = min(l.credit+spinGain, creditMax)
	}
}
