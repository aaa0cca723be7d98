// Package look lets a receiver look for input some more before it goes to sleep: the receive loops
// of all providers, and callers that receive for themselves.
package look

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

var lookers atomic.Int32

// Lookers is how many look in this process now.
func Lookers() int { return int(lookers.Load()) }

// A Looker is how a receiver that has found nothing goes on: it looks again for a while, because
// the answer to what was just sent is often there sooner than a processor could be put to sleep and
// woken. That is for processors that have nothing better to do. Where somebody else takes the
// processor meanwhile, or where nothing comes in time, it sleeps at once for the next few times,
// and for more of them each time in a row.
type Looker struct {
	busy    bool
	since   time.Time     // of the first look, when busy
	last    time.Time     // and of the last one
	gave    time.Time     // when goroutines of this process were last given way to
	won     time.Duration // by looks that found something, and not lost since to others who had the processor
	backoff wait.Backoff  // how often it sleeps at once from now on
	most    limit         // set once: of lookers
	tally   tally.Counter
}

const (
	// lookTime is how long it looks: several times what a peer works on one packet, and about what
	// it takes to sleep and to be woken.
	lookTime = 50 * time.Microsecond

	// lookTaken is how long it is from one look to the next when somebody else had the processor in
	// between. That may be for milliseconds, in which a packet would have woken who sleeps.
	// lookPrice is what that may cost each packet: what a look wins where processors are busy,
	// which is to go to sleep, to be woken, and to wait for a processor then.
	lookTaken = 20 * time.Microsecond
	lookPrice = 8 * time.Microsecond

	// lookWin is what a look wins that finds something, at the least: a part of what it takes to
	// sleep and to be woken. What others take is paid for by that first, so that who finds nearly
	// always goes on looking after a thread has had the processor for a moment. No more than
	// lookMost counts, a time slice of the kernel's.
	lookWin  = 5 * time.Microsecond
	lookMost = 4 * time.Millisecond

	// lookLongest is the longest of such times that counts: a process that was stopped, or a
	// machine that stood still, has not paid for a look.
	lookLongest = 100 * time.Millisecond

	// lookGive is how long goroutines that are ready wait at most for one that looks and finds,
	// time and again, if no other processor takes them. To give way to them each time costs more
	// than it is worth: the scheduler wakes a thread for it.
	lookGive = 200 * time.Microsecond
)

// AddTo implements tally.Source. A poll is a burst of looks: it is won with input, and lost with
// none or where the processor was taken; a wait without a look is passed.
func (l *Looker) AddTo(t tally.Table) { t.Add("poll", l.tally.Counts()) }

// New is ready to look. Half of the processors at most look at the same time, for goroutines that
// have work need the others: where there is but one, nobody looks.
func New() Looker { return Looker{most: half} }

// half is that number now: a program may have more processors at one time than at another. To ask
// Go's scheduler takes its lock, so it is not asked each time.
func half() int32 {
	now := int64(time.Since(epoch))
	if last := asked.at.Load(); now-last >= int64(halfTime) && asked.at.CompareAndSwap(last, now) {
		asked.half.Store(int32(runtime.GOMAXPROCS(0) / 2))
	}
	return asked.half.Load()
}

// halfTime is for how long an answer of Go's scheduler holds.
const halfTime = time.Millisecond

var (
	epoch = time.Now().Add(-halfTime)
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

// Again reports whether to look once more.
func (l *Looker) Again() bool {
	now := time.Now()
	if !l.more(now) {
		return false
	}
	if now.Sub(l.gave) >= lookGive {
		runtime.Gosched()
		l.gave = time.Now()
		l.last = l.gave // what took long was of this process
	}
	return true
}

// more reports whether to look once more.
func (l *Looker) more(now time.Time) bool {
	switch {
	case l.busy && now.Sub(l.last) >= lookTaken:
		l.taken(now.Sub(l.last))
		return false
	case l.busy && now.Sub(l.since) >= lookTime:
		l.missed()
		return false
	case l.busy:
		l.last = now
	case l.backoff.Pass():
		l.tally.Pass()
		return false
	case lookers.Add(1) > l.most.now():
		lookers.Add(-1)
		l.tally.Pass()
		return false
	default:
		l.busy, l.since, l.last = true, now, now
	}
	return true
}

// end ends looking.
func (l *Looker) end() {
	l.busy = false
	lookers.Add(-1)
}

// missed ends looking, for nothing.
func (l *Looker) missed() {
	l.end()
	l.tally.Lose()
	l.backoff.Note(false)
}

// taken ends looking, because somebody else had the processor for a time.
func (l *Looker) taken(took time.Duration) {
	l.end()
	l.tally.Lose()
	took = min(took, lookLongest)
	l.backoff.Skip(int(max(took-l.won, 0) / lookPrice))
	l.won = max(l.won-took, 0)
}

// Found ends looking: there is input, or an end of it. It follows each Again that reported true,
// unless another Again does.
func (l *Looker) Found() {
	if l.busy {
		l.end()
		l.tally.Win()
		l.backoff.Note(true)
		l.won = min(l.won+lookWin, lookMost)
	}
}
