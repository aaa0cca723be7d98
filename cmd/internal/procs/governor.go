// How many processors Go's scheduler is to have.

package procs

import "time"

// A sample is what is known at one moment; all but the number of processors counts from some beginning.
type sample struct {
	at    time.Time
	calls uint64 // and those of them that are large: see transport.ProcessCalls
	large uint64

	machine // zero where the kernel does not tell
}

// machine is what is known of the processors that this process may use.
type machine struct {
	cpus   int           // how many they are
	busy   time.Duration // of all of them, by whomever
	own    time.Duration // by this process
	stolen time.Duration // that a hypervisor has not given them
}

const (
	// tick is between two samples while there are streams, rest where there are other calls, and idle where there are none.
	tick = 20 * time.Millisecond
	rest = 50 * time.Millisecond
	idle = 100 * time.Millisecond

	// window is what others' use is told from: the kernel counts it in hundredths of a second, by its own clock.
	window = 80 * time.Millisecond

	// streamRate is how many large calls a second make a stream. Beside them are smallRate others a second at most, or one for smallShare
	// large ones: the attributes and COMMITs that belong to them, and now and then a call of a program that waits.
	streamRate = 100
	smallRate  = 400
	smallShare = 4

	// takenMore and takenLess are how much of a processor others have used at least when it is left to them, and at most when it is taken back.
	takenMore = 0.6
	takenLess = 0.3
)

// A governor decides by samples.
type governor struct {
	all  int // processors that Go's scheduler has when nobody else needs them
	now  int // that it has
	past []sample
}

// next takes a sample in, and returns how many processors Go's scheduler is to have, and when the next sample is due.
func (g *governor) next(s sample) (n int, due time.Duration) {
	last := len(g.past) - 1
	if last < 0 || s.cpus == 0 || s.cpus != g.past[last].cpus || g.past[last].smallCalls(&s) {
		return g.restart(s)
	}
	for len(g.past) > 1 && s.at.Sub(g.past[1].at) >= window {
		g.past = append(g.past[:0], g.past[1:]...)
	}
	g.past = append(g.past, s)
	from := &g.past[0]
	since := s.at.Sub(from.at)
	switch {
	case float64(s.large-from.large) < streamRate*since.Seconds():
		return g.restart(s)
	case since >= window:
		g.now = g.leave(s.others(from))
	}
	return g.now, tick
}

// restart has the scheduler have all processors, and forgets what was before s.
func (g *governor) restart(s sample) (n int, due time.Duration) {
	due = idle
	if len(g.past) > 0 && g.past[len(g.past)-1].calls != s.calls {
		due = rest
	}
	g.past, g.now = append(g.past[:0], s), g.all
	return g.all, due
}

// smallCalls reports whether there have been more small calls between two samples than go with a stream.
func (s *sample) smallCalls(to *sample) bool {
	large := to.large - s.large
	small := to.calls - s.calls
	small -= min(small, large)
	return float64(small) > max(smallRate*to.at.Sub(s.at).Seconds(), float64(large)/smallShare)
}

// others is how many processors others have used since: of what the hypervisor gave.
func (s *sample) others(from *sample) float64 {
	given := time.Duration(s.cpus)*s.at.Sub(from.at) - (s.stolen - from.stolen)
	if given <= 0 {
		return 0
	}
	return float64(s.cpus) * float64(s.busy-from.busy-(s.own-from.own)) / float64(given)
}

// leave is how many processors there are for Go's scheduler where others use as much as that: half of its own at least, for who else wants them is
// as good as we are.
func (g *governor) leave(others float64) (n int) {
	cpus := g.past[0].cpus
	n = g.now
	for n > (g.all+1)/2 && others >= float64(cpus-n)+takenMore {
		n--
	}
	for n < g.all && others <= float64(cpus-n-1)+takenLess {
		n++
	}
	return n
}
