// When processors are left to others, in simulated time.

package procs

import (
	"testing"
	"time"
)

// A load is what goes on, in one second or of one processor.
type load struct {
	large, small float64 // calls
	others, own  float64 // processors used
	stolen       float64 // processors that the hypervisor keeps
}

// A bed is a governor in a machine of some processors.
type bed struct {
	g      governor
	cpus   int
	at     time.Time
	due    time.Time
	large  float64
	small  float64
	others float64
	own    float64
	stolen float64
	asked  int // how often
}

// machineOf has cpus processors, all of which Go's scheduler uses.
func machineOf(cpus int) *bed {
	at := time.Unix(0, 0)
	return &bed{g: governor{all: cpus, now: cpus}, cpus: cpus, at: at, due: at}
}

// ticks is a time as the kernel counts it.
func ticks(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Truncate(userTick)
}

// run has l go on for d, and returns the least and the most processors that Go's scheduler has had, and those at the end.
func (b *bed) run(l load, d time.Duration) (least, most, last int) {
	const step = time.Millisecond
	least, most = b.g.now, b.g.now
	for end := b.at.Add(d); b.at.Before(end); b.at = b.at.Add(step) {
		s := step.Seconds()
		b.large, b.small = b.large+l.large*s, b.small+l.small*s
		b.others, b.own, b.stolen = b.others+l.others*s, b.own+l.own*s, b.stolen+l.stolen*s
		if b.at.Before(b.due) {
			continue
		}
		n, due := b.g.next(b.sample())
		b.asked++
		b.due = b.at.Add(due)
		least, most = min(least, n), max(most, n)
	}
	return least, most, b.g.now
}

func (b *bed) sample() sample {
	return sample{
		at: b.at, calls: uint64(b.large) + uint64(b.small), large: uint64(b.large),
		machine: machine{cpus: b.cpus, busy: ticks(b.others + b.own), own: time.Duration(b.own * float64(time.Second)), stolen: ticks(b.stolen)},
	}
}

// local is a stream whose other end is a process of this machine.
var local = load{large: 2000, others: 0.9, own: 0.8}

func (b *bed) want(t *testing.T, what string, l load, d time.Duration, want int) {
	t.Helper()
	if least, most, last := b.run(l, d); last != want {
		t.Errorf("%s: %d processors (%d to %d), want %d", what, last, least, most, want)
	}
}

func (b *bed) wantSteady(t *testing.T, what string, l load, want int) {
	t.Helper()
	if least, most, _ := b.run(l, 10*time.Second); least != want || most != want {
		t.Errorf("%s: %d to %d processors, want %d all the time", what, least, most, want)
	}
}

func TestStreamsLeaveProcessorsToOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		cpus int
		l    load
		want int
	}{
		{"the other end is here", 2, local, 1},
		{"the other end is on another machine", 2, load{large: 2000, own: 1.6}, 2},
		{"the kernel works for the network", 2, load{large: 2000, own: 1.2, others: 0.3}, 2},
		{"few others", 8, load{large: 5000, own: 2, others: 0.9}, 7},
		{"more of them", 8, load{large: 5000, own: 2, others: 3}, 5},
		{"others that want all", 8, load{large: 5000, own: 2, others: 7.9}, 4},
		{"three processors", 3, load{large: 5000, own: 0.5, others: 2.5}, 2},
		{"one processor", 1, local, 1},
		{"half is stolen, others have most of the rest", 2, load{large: 600, own: 0.4, others: 0.4, stolen: 1}, 1},
		{"nothing but small calls", 2, load{small: 50000, own: 0.8, others: 0.9}, 2},
		{"small calls beside the stream", 2, load{large: 1300, small: 4000, own: 0.8, others: 0.9}, 2},
		{"what belongs to the stream", 2, load{large: 2000, small: 300, own: 0.8, others: 0.9}, 1},
		{"calls now and then", 2, load{large: 50, own: 0.1, others: 0.9}, 2},
		{"no calls", 2, load{own: 0.8, others: 0.9}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := machineOf(c.cpus)
			b.want(t, "after 300 ms", c.l, 300*time.Millisecond, c.want)
			b.wantSteady(t, "then", c.l, c.want)
		})
	}
}

// Who has left a processor takes it back as soon as it is of use.
func TestProcessorsAreTakenBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		then   load
		within time.Duration
	}{
		{"small calls", load{large: 1300, small: 4000, own: 0.9, others: 0.9}, tick + time.Millisecond},
		{"the others rest", load{large: 2000, own: 1}, 2 * window},
		{"the stream ends", load{others: 0.9}, 2 * window},
		{"the stream becomes a trickle", load{large: 20, others: 0.9}, 2 * window},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := machineOf(2)
			b.want(t, "stream", local, time.Second, 1)
			b.want(t, c.name, c.then, c.within, 2)
			b.wantSteady(t, "then", c.then, 2)
			b.want(t, "stream again", local, 300*time.Millisecond, 1)
		})
	}
}

// A stream that stands still for a moment, as where the machine does, is a stream.
func TestStallsAreNoEnd(t *testing.T) {
	b := machineOf(2)
	b.want(t, "stream", local, time.Second, 1)
	for range 10 {
		if _, most, _ := b.run(load{stolen: 2}, 30*time.Millisecond); most != 1 {
			t.Fatal("30 ms in which nothing ran took the processor back")
		}
		if _, most, _ := b.run(local, 200*time.Millisecond); most != 1 {
			t.Fatal("a stream that went on took the processor back")
		}
	}
}

// Where a container may use less than the machine has, what others use of the rest is theirs anyway.
func TestProcessorsThatAreNotOurs(t *testing.T) {
	b := machineOf(8)
	b.g.all, b.g.now = 2, 2
	b.wantSteady(t, "5 of 8 used by others", load{large: 2000, own: 1, others: 5}, 2)
	b.want(t, "all used by others", load{large: 2000, own: 1, others: 7}, time.Second, 1)
}

// What the kernel does not tell changes nothing, and a machine whose processors become others is looked at anew.
func TestMachineThatIsNotKnown(t *testing.T) {
	b := machineOf(2)
	b.want(t, "stream", local, time.Second, 1)
	s := b.sample()
	s.machine = machine{}
	if n, _ := b.g.next(s); n != 2 {
		t.Errorf("%d processors where nothing is known", n)
	}
	b.want(t, "stream again", local, 300*time.Millisecond, 1)
	b.cpus = 4
	if n, _ := b.g.next(b.sample()); n != 2 {
		t.Errorf("%d processors where the machine has become another", n)
	}
}

// It is looked at seldom where there are no streams.
func TestLooksAreFew(t *testing.T) {
	for _, c := range []struct {
		name string
		l    load
		most int // in ten seconds
	}{
		{"no calls", load{}, 102},
		{"small calls", load{small: 50000, own: 1, others: 0.5}, 202},
		{"a stream", local, 502},
	} {
		b := machineOf(2)
		b.run(c.l, 10*time.Second)
		if b.asked > c.most {
			t.Errorf("%s: looked at %d times in ten seconds", c.name, b.asked)
		}
	}
}
