// Random schedules from a seed.

package several

import "math/rand/v2"

// A generator makes random steps. It tracks the files that are probably open; impossible steps are
// skipped when the schedule runs.
type generator struct {
	rnd   *rand.Rand
	kinds []Kind
	steps []Step
	open  map[fdKey]string // the flags
	next  int              // the byte value of the next write
	all   bool             // includes restarts of the server
}

// slots limits the open files per actor.
const slots = 3

// Random returns a schedule with about n steps.
func (w *World) Random(seed uint64, n int) []Step {
	g := &generator{rnd: rand.New(rand.NewPCG(seed, 3)), kinds: w.Kinds, open: make(map[fdKey]string), all: w.Restart != nil}
	for len(g.steps) < n {
		g.some()
	}
	return g.steps
}

func (g *generator) add(s Step) { g.steps = append(g.steps, s) }

func (g *generator) pick(of ...string) string { return of[g.rnd.IntN(len(of))] }

func (g *generator) file() string { return g.pick("a", "a", "a", "a", "b", "b", "c") }

// offset returns an offset near a page boundary, or any offset.
func (g *generator) offset() int64 {
	if g.rnd.IntN(3) == 0 {
		return g.rnd.Int64N(20000)
	}
	return max(0, int64(g.rnd.IntN(5))*page+g.rnd.Int64N(3)-1)
}

// length returns mostly a few pages, and sometimes more than one READ.
func (g *generator) length() int64 {
	switch g.rnd.IntN(40) {
	case 0:
		return 1 + g.rnd.Int64N(300_000)
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
		return int64(1+g.rnd.IntN(3)) * page
	}
	return 1 + g.rnd.Int64N(6000)
}

// value returns a byte value not used by earlier writes, if possible.
func (g *generator) value() int {
	g.next = g.next%255 + 1
	return g.next
}

// some adds a few steps of one actor.
func (g *generator) some() {
	actor := g.rnd.IntN(len(g.kinds))
	if g.kinds[actor].Command {
		if g.rnd.IntN(4) == 0 {
			g.command(actor)
		}
		return
	}
	slot := fdKey{actor, 1 + g.rnd.IntN(slots)}
	flags, isOpen := g.open[slot]
	switch n := g.rnd.IntN(20); {
	case g.all && g.rnd.IntN(100) == 0:
		g.add(Step{Op: Restart})
	case n < 3:
		g.names(actor)
	case !isOpen:
		flags = g.pick("r", "r", "w", "w", "w creat", "w append", "w creat append", "w trunc", "w creat trunc")
		g.add(Step{Actor: actor, Op: Open, Name: g.file(), Fd: slot.fd, Flags: flags})
		g.open[slot] = flags
		if g.rnd.IntN(3) > 0 {
			g.visit(slot, flags)
		}
	case n < 9:
		kind := g.pick("fcntl", "flock")
		g.add(Step{Actor: actor, Op: Lock, Fd: slot.fd, Flags: kind})
		g.use(slot, flags, 1+g.rnd.IntN(3))
		if g.rnd.IntN(4) > 0 { // otherwise the file stays open for later steps
			g.add(Step{Actor: actor, Op: Unlock, Fd: slot.fd, Flags: kind})
		}
	case n < 11:
		g.add(Step{Actor: actor, Op: FStat, Fd: slot.fd})
		g.see(slot)
	case n < 15:
		g.use(slot, flags, 1)
	default:
		g.visit(slot, flags)
	}
}

// visit uses an open file and closes it.
func (g *generator) visit(slot fdKey, flags string) {
	g.use(slot, flags, g.rnd.IntN(4))
	g.add(Step{Actor: slot.actor, Op: Close, Fd: slot.fd})
	delete(g.open, slot)
}

// use adds steps that see and change an open file.
func (g *generator) use(slot fdKey, flags string, n int) {
	for range n {
		if flags == "r" && g.rnd.IntN(6) > 0 || g.rnd.IntN(2) == 0 {
			g.see(slot)
		} else {
			g.change(slot, flags)
		}
	}
}

func (g *generator) see(slot fdKey) {
	op := []Op{Read, Read, PRead, PRead, Map, Map, SendFile, Splice, SeekEnd, FStat, FGetACL}[g.rnd.IntN(11)]
	g.add(Step{Actor: slot.actor, Op: op, Fd: slot.fd, Off: g.offset(), N: g.length()})
}

func (g *generator) change(slot fdKey, flags string) {
	s := Step{Actor: slot.actor, Fd: slot.fd}
	s.Op = []Op{PWrite, PWrite, SeekWrite, Store, FTruncate, FTruncate, Fallocate, CopyRange, FChmod, FTimes, FSetACL, FSync}[g.rnd.IntN(12)]
	if s.Op == PWrite && len(flags) > 6 {
		s.Op = Append
	}
	switch s.Op {
	case PWrite, Store, Fallocate, FTruncate:
		s.Off = g.offset()
	case CopyRange:
		s.Off, s.ToOff, s.ToFd = g.offset(), g.offset(), 1+g.rnd.IntN(slots)
	}
	g.fill(&s)
	g.add(s)
}

// fill sets the length and the value of a change.
func (g *generator) fill(s *Step) {
	switch s.Op {
	case FChmod:
		s.Val = 0o600 + g.rnd.IntN(0o100)
	case FTimes:
		s.Val = 1_000_000_000 + g.rnd.IntN(SetTimes-1_000_000_000)
	case FSetACL:
		s.Val = 1000 + g.rnd.IntN(100)
	case PWrite, Append, SeekWrite, Store, CopyIn:
		s.Val, s.N = g.value(), g.length()
	case CopyRange, Fallocate:
		s.N = g.length()
	}
}

// names adds a step on names.
func (g *generator) names(actor int) {
	s := Step{Actor: actor, Name: g.file()}
	s.Op = []Op{Unlink, Rename, Rename, Truncate, Stat, ReadDir, Create}[g.rnd.IntN(7)]
	switch s.Op {
	case Rename:
		s.To = g.file()
	case Truncate:
		s.Off = g.offset()
	case ReadDir:
		s.Name = ""
	case Create:
		s.Fd = 1 + g.rnd.IntN(slots)
		if _, used := g.open[fdKey{actor, s.Fd}]; used {
			s.Op = Unlink
			s.Fd = 0
		} else {
			g.open[fdKey{actor, s.Fd}] = "w"
		}
	}
	g.add(s)
}

// command adds a step of a command.
func (g *generator) command(actor int) {
	s := Step{Actor: actor, Name: g.file()}
	s.Op = []Op{Cat, Cat, Cat, CopyIn, CopyIn, Rename, Unlink, Stat}[g.rnd.IntN(8)]
	if s.Op == Rename {
		s.To = g.file()
	}
	g.fill(&s)
	g.add(s)
}
