// The model on a local directory, where it must be exact, and broken actors, which it must find.

package several

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// local returns a world of processes in one local directory.
func local(t *testing.T, n int) *World {
	t.Helper()
	root, w := t.TempDir(), NewWorld("local")
	for range n {
		if err := w.Process(Kind{Name: "a process", Local: true}, root); err != nil {
			t.Fatalf("Process: %v", err)
		}
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("w.Close: %v", err)
		}
	})
	return w
}

// TestLocal: a local directory keeps all promises, even those for newest versions.
func TestLocal(t *testing.T) {
	w := local(t, 3)
	steps := 0
	for seed := range uint64(300) {
		n, err := w.Run(w.Random(seed, 60))
		if err != nil {
			var f *Failure
			if errors.As(err, &f) {
				err = w.Shrink(f)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
		steps += n
	}
	if steps < 9000 {
		t.Errorf("%d steps could be taken", steps)
	}
	if _, err := w.CheckMatrix([][2]int{{1, 0}}, rand.Uint64(), 4, func(err error) { t.Error(err) }); err != nil {
		t.Errorf("CheckMatrix: %v", err)
	}
}

// A broken actor changes its steps or its outcomes.
type broken struct {
	Actor
	ask func(*Step)
	say func(Step, *Outcome)
}

func (b *broken) Do(dir string, s Step) (Outcome, error) {
	if b.ask != nil {
		b.ask(&s)
	}
	o, err := b.Actor.Do(dir, s)
	if b.say != nil {
		b.say(s, &o)
	}
	return o, err
}

// TestBrokenPromises: each broken actor is found, and the remaining schedule has few steps.
func TestBrokenPromises(t *testing.T) {
	size := int64(-1) // the size that a broken actor found first
	for name, b := range map[string]broken{
		"a read that ends too early": {say: func(s Step, o *Outcome) {
			if s.Op == PRead && len(o.Data) > 1 {
				o.Data = o.Data[:len(o.Data)-1]
			}
		}},
		"zeros that the file never had": {say: func(s Step, o *Outcome) {
			if s.Op == Read && len(o.Data) > page {
				o.Data = append(o.Data[:page:page], make([]byte, len(o.Data)-page)...)
			}
		}},
		"a size that is kept": {say: func(s Step, o *Outcome) {
			if s.Op == SeekEnd {
				if size < 0 {
					size = o.N
				}
				o.N = size
			}
		}},
		"a store that goes past a page's end": {ask: func(s *Step) {
			if s.Op == Store {
				s.Off = max(0, s.Off-1)
			}
		}},
		"a lock for two":          {say: func(s Step, o *Outcome) { o.Err = replaced(s, Lock, o.Err, "EAGAIN", "") }},
		"a create that opens":     {say: func(s Step, o *Outcome) { o.Err = replaced(s, Create, o.Err, "EEXIST", "") }},
		"a mode that was not set": {say: func(s Step, o *Outcome) { o.Mode = replaced(s, FStat, o.Mode, 0o644, 0o640) }},
		"a time that is lost":     {say: func(s Step, o *Outcome) { o.Time = 0 }},
		"an ACL that is lost":     {say: func(s Step, o *Outcome) { o.ACL = 0 }},
		"a mapping that faults":   {say: func(s Step, o *Outcome) { o.Err = replaced(s, Map, o.Err, "", "SIGBUS") }},
		"a dead file":             {say: func(s Step, o *Outcome) { o.Err = replaced(s, FSync, o.Err, "", "ESTALE") }},
		"a name that stays":       {ask: func(s *Step) { s.Op = replaced(*s, Unlink, s.Op, Unlink, Stat) }},
		"a truncation that waits": {ask: func(s *Step) { s.Op = replaced(*s, FTruncate, s.Op, FTruncate, FSync) }},
	} {
		w := local(t, 3)
		b.Actor, size = w.Actors[1], -1
		w.Actors[1] = &b
		var f *Failure
		for seed := uint64(0); f == nil && seed < 1000; seed++ {
			if _, err := w.Run(w.Random(seed, 60)); err != nil && !errors.As(err, &f) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if f == nil {
			t.Errorf("%s: got no failure, want one", name)
			continue
		}
		if f = w.Shrink(f); len(f.Steps) > 8 {
			t.Errorf("%s: got %d steps, want at most 8: %v", name, len(f.Steps), f)
		}
	}
}

// replaced returns a broken actor's replacement of one value, in steps of one kind.
func replaced[T comparable](s Step, op Op, is, from, to T) T {
	if s.Op == op && is == from {
		return to
	}
	return is
}

// TestOlderVersions: an actor never refreshes its cache. The model rejects its outcomes where the
// newest version is promised, and accepts them elsewhere.
func TestOlderVersions(t *testing.T) {
	kinds := []Kind{{Name: "a mount"}, {Name: "another mount"}}
	m := newModel(kinds)
	steps := []struct {
		step Step
		got  Outcome
		ok   bool
	}{
		{Step{Actor: 0, Op: Create, Name: "a", Fd: 1}, Outcome{}, true},
		{Step{Actor: 0, Op: PWrite, Fd: 1, N: 2, Val: 'x'}, Outcome{N: 2}, true},
		{Step{Actor: 0, Op: FSync, Fd: 1}, Outcome{}, true},
		{Step{Actor: 1, Op: Open, Name: "a", Fd: 1, Flags: "w"}, Outcome{}, true},
		{Step{Actor: 1, Op: PRead, Fd: 1, N: 2}, Outcome{Data: []byte("xx")}, true},
		{Step{Actor: 0, Op: Append, Fd: 1, N: 1, Val: 'y'}, Outcome{N: 1}, true},
		{Step{Actor: 0, Op: FSync, Fd: 1}, Outcome{}, true},
		{Step{Actor: 1, Op: PRead, Fd: 1, N: 3}, Outcome{Data: []byte("xx")}, true},
		{Step{Actor: 1, Op: PRead, Fd: 1, N: 3}, Outcome{Data: []byte("xxy")}, true},
		{Step{Actor: 1, Op: PRead, Fd: 1, N: 3}, Outcome{Data: []byte("xx\x00")}, false},
		{Step{Actor: 1, Op: FStat, Fd: 1}, Outcome{N: 2, Mode: 0o644}, true},
		{Step{Actor: 1, Op: FStat, Fd: 1}, Outcome{N: 3, Mode: 0o644}, true},
		// known to be longer
		{Step{Actor: 1, Op: PRead, Fd: 1, N: 3}, Outcome{Data: []byte("xx")}, false},
		{Step{Actor: 0, Op: FTruncate, Fd: 1, Off: 1}, Outcome{}, true},
		{Step{Actor: 1, Op: SeekEnd, Fd: 1}, Outcome{N: 3}, true},
		{Step{Actor: 1, Op: Lock, Fd: 1, Flags: "fcntl"}, Outcome{}, true},
		{Step{Actor: 1, Op: SeekEnd, Fd: 1}, Outcome{N: 3}, false},
		{Step{Actor: 1, Op: SeekEnd, Fd: 1}, Outcome{N: 1}, true},
	}
	for _, s := range steps {
		if want := m.apply(s.step, s.got); (want == "") != s.ok {
			t.Errorf("%s → %s: got accepted %t (want %q), want %t", s.step, s.got, want == "", want, s.ok)
		}
	}
}

// TestAbsentNames: a mount that caches absent names may report another actor's new name as absent,
// but not a name that it has seen.
func TestAbsentNames(t *testing.T) {
	m := newModel([]Kind{{Name: "a mount"}, {Name: "a mount with lookupcache=all", Absent: true}})
	steps := []struct {
		step Step
		got  Outcome
		ok   bool
	}{
		{Step{Actor: 0, Op: Create, Name: "a", Fd: 1}, Outcome{}, true},
		{Step{Actor: 0, Op: Stat, Name: "a"}, Outcome{Err: "ENOENT"}, false},
		{Step{Actor: 1, Op: Stat, Name: "a"}, Outcome{Err: "ENOENT"}, true},
		{Step{Actor: 1, Op: Open, Name: "a", Fd: 1, Flags: "w creat"}, Outcome{Err: "ENOENT"}, false},
		{Step{Actor: 1, Op: Create, Name: "a", Fd: 1}, Outcome{Err: "ENOENT"}, false},
		{Step{Actor: 1, Op: Create, Name: "a", Fd: 1}, Outcome{Err: "EEXIST"}, true},
		{Step{Actor: 1, Op: Stat, Name: "a"}, Outcome{Err: "ENOENT"}, false},
		{Step{Actor: 1, Op: Open, Name: "a", Fd: 1, Flags: "r"}, Outcome{Err: "ENOENT"}, false},
		{Step{Actor: 1, Op: Unlink, Name: "a"}, Outcome{}, true},
		{Step{Actor: 0, Op: Create, Name: "a", Fd: 2}, Outcome{}, true},
		{Step{Actor: 1, Op: Unlink, Name: "a"}, Outcome{Err: "ENOENT"}, true},
		{Step{Actor: 1, Op: Unlink, Name: "a"}, Outcome{}, true},
	}
	for _, s := range steps {
		if want := m.apply(s.step, s.got); (want == "") != s.ok {
			t.Errorf("%s → %s: got accepted %t (want %q), want %t", s.step, s.got, want == "", want, s.ok)
		}
	}
}

// TestListedNames: our mount may keep a name from before another actor renamed its file, though no
// step has used it, until the file is gone. Another mount asks for the name.
func TestListedNames(t *testing.T) {
	m := newModel([]Kind{{Name: "our mount", Unasked: true}, {Name: "another mount"}, {Name: "a process", Local: true}})
	for i, s := range []Step{{Op: Create, Name: "b", Fd: 1}, {Op: Rename, Name: "b", To: "a"}, {Op: Unlink, Name: "a"}} {
		s.Actor = 2
		if want := m.apply(s, Outcome{}); want != "" {
			t.Fatalf("%s: want %s", s, want)
		}
		for actor, want := range []bool{i != 1, true} {
			if got := m.prepare(&Step{Actor: actor, Op: Open, Name: "b", Fd: 1, Flags: "r"}); got != want {
				t.Errorf("after %s: got an open of b by %s taken %t, want %t", s, m.kinds[actor].Name, got, want)
			}
		}
	}
}

// TestLostData: a mount that has the error for its lost data may have sent any part. Without that
// error, others see its data once it has closed the file.
func TestLostData(t *testing.T) {
	for _, lost := range []bool{false, true} {
		m := newModel([]Kind{{Name: "a mount"}, {Name: "a process", Local: true}})
		closed := Outcome{}
		if lost {
			closed.Err = "ESTALE"
		}
		steps := []struct {
			step Step
			got  Outcome
			ok   bool
		}{
			{Step{Actor: 0, Op: Create, Name: "a", Fd: 1}, Outcome{}, true},
			{Step{Actor: 1, Op: Open, Name: "a", Fd: 1, Flags: "w"}, Outcome{}, true},
			{Step{Actor: 0, Op: PWrite, Fd: 1, N: 2, Val: 'x'}, Outcome{N: 2}, true},
			{Step{Actor: 0, Op: FStat, Fd: 1}, Outcome{Mode: 0o644}, false},
			{Step{Actor: 1, Op: Unlink, Name: "a"}, Outcome{}, true},
			{Step{Actor: 0, Op: FStat, Fd: 1}, Outcome{Mode: 0o644}, true},
			{Step{Actor: 0, Op: Close, Fd: 1}, closed, true},
			{Step{Actor: 1, Op: Read, Fd: 1, N: 2}, Outcome{}, lost},
			{Step{Actor: 1, Op: Read, Fd: 1, N: 2}, Outcome{Data: []byte("xx")}, true},
			{Step{Actor: 1, Op: PWrite, Fd: 1, Off: 4, N: 1, Val: 'y'}, Outcome{N: 1}, true},
			{Step{Actor: 1, Op: Read, Fd: 1, N: 5}, Outcome{Data: []byte("\x00\x00\x00\x00y")}, lost},
		}
		for _, s := range steps {
			if want := m.apply(s.step, s.got); (want == "") != s.ok {
				t.Errorf("lost %t: %s → %s: got accepted %t (want %q), want %t", lost, s.step, s.got, want == "", want, s.ok)
			}
		}
	}
}
