// A run of a schedule, and the failure at its end.

package several

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// A World has the actors of schedules with their promises, and the server.
type World struct {
	Actors  []Actor // the first is a mount, or local
	Kinds   []Kind
	Restart func() error // kills and restarts the server; nil: no restarts

	// Tick waits until a change of a file gets a later time than earlier changes; nil if each
	// change does. Clients detect changes by their times.
	Tick func() error

	runs atomic.Int64
	name string
	ends []func() error // of processes
}

// NewWorld returns a world without actors. Its schedules' directories are named name and a number.
func NewWorld(name string) *World { return &World{name: name} }

// Add adds an actor.
func (w *World) Add(k Kind, a Actor) {
	w.Kinds, w.Actors = append(w.Kinds, k), append(w.Actors, a)
}

// TickOf returns a World.Tick that changes a file until its time differs. It creates the file
// first.
func TickOf(file string) (func() error, error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	f.Close()
	return func() error {
		first, err := os.Stat(file)
		for now := first; err == nil && now.ModTime().Equal(first.ModTime()); {
			if err = os.WriteFile(file, []byte("tick"), 0o600); err == nil {
				now, err = os.Stat(file)
			}
		}
		return err
	}, nil
}

// A Failure is a step with an outcome that is not permitted.
type Failure struct {
	Steps []Step // the steps up to the wrong outcome, with its step at the end
	Got   Outcome
	Want  string

	world *World
	taken []string
}

func (f *Failure) Error() string {
	var b strings.Builder
	for i, k := range f.world.Kinds {
		fmt.Fprintf(&b, "actor %d is %s\n", i, k.Name)
	}
	for _, line := range f.taken {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "got  %s\nwant %s", f.Got, f.Want)
	return b.String()
}

// Run runs a schedule's possible steps in a new directory, and returns their number. The error is a
// *Failure after a wrong outcome, otherwise an error that ended an actor.
func (w *World) Run(schedule []Step) (steps int, err error) {
	dir := fmt.Sprintf("%s-%d", w.name, w.runs.Add(1))
	if o, err := w.Actors[0].Do(dir, Step{Op: mkdir}); err != nil || o.Err != "" {
		return 0, fmt.Errorf("making %s: %s %w", dir, o, err)
	}
	m := newModel(w.Kinds)
	r := &run{world: w, model: m, dir: dir}
	for _, s := range schedule {
		if err = r.step(s); err != nil {
			break
		}
	}
	for i := len(w.Actors) - 1; i >= 0; i-- {
		s := Step{Actor: i, Op: clear}
		if i == 0 {
			s.Flags = "all"
		}
		if o, failed := w.Actors[i].Do(dir, s); failed != nil && err == nil {
			err = failed
		} else if o.Err != "" && err == nil && i == 0 {
			err = fmt.Errorf("removing %s: %s", dir, o)
		}
	}
	return len(r.taken), err
}

// A run is one run of a schedule.
type run struct {
	world *World
	model *model
	dir   string
	steps []Step
	taken []string
}

// step runs a step if it is possible, after the steps required before it.
func (r *run) step(s Step) error {
	if !r.model.prepare(&s) || s.Op == Restart && r.world.Restart == nil {
		return nil
	}
	for _, first := range r.model.before(s) {
		if err := r.take(first); err != nil {
			return err
		}
	}
	if !r.model.prepare(&s) {
		return nil
	}
	return r.take(s)
}

func (r *run) take(s Step) (err error) {
	var o Outcome
	if r.world.Tick != nil && len(r.steps) > 0 && r.steps[len(r.steps)-1].Actor != s.Actor {
		err = r.world.Tick()
	}
	switch {
	case err != nil:
	case s.Op == Restart:
		err = r.world.Restart()
	default:
		o, err = r.world.Actors[s.Actor].Do(r.dir, s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w, after\n%s", s, err, strings.Join(r.taken, "\n"))
	}
	r.steps = append(r.steps, s)
	r.taken = append(r.taken, fmt.Sprintf("%-50s → %s", s, o))
	if want := r.model.apply(s, o); want != "" {
		return &Failure{Steps: r.steps, Got: o, Want: want, world: r.world, taken: r.taken}
	}
	return nil
}

// perSchedule is the length of a random schedule.
const perSchedule = 60

// Check runs random schedules until count steps have run. Each schedule has its own seed, from seed
// on. A failure has the seed and a shortened failing schedule; more reports whether to continue
// after the failure. The error is an error that ended an actor.
func (w *World) Check(seed uint64, count int, more func(failure error) bool) (taken int, err error) {
	for ; taken < count; seed++ {
		n, err := w.Run(w.Random(seed, perSchedule))
		taken += n
		var f *Failure
		switch {
		case errors.As(err, &f):
			if !more(fmt.Errorf("seed %d: %w", seed, w.Shrink(f))) {
				return taken, nil
			}
		case err != nil:
			return taken, fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return taken, nil
}
