// The loop: each call once, an end at the first error, no allocation.

package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func slots(n int) []*slot {
	p := newPattern(1)
	var list []*slot
	for range n {
		list = append(list, newSlot(p))
	}
	return list
}

func TestCountedLoopMakesEachCallOnce(t *testing.T) {
	const count = 1000
	var made [count]atomic.Int32
	ended := 0
	l := loop{slots: slots(7), count: count, end: func() error { ended++; return nil }}
	l.op = func(_ *slot, i int64) (int, error) {
		made[i].Add(1)
		return 3, nil
	}
	for round := 1; round <= 2; round++ { // the second must not see the first round's state
		m, err := l.run(t.Context())
		if err != nil || m.h.N != count || m.bytes != 3*count {
			t.Fatalf("round %d: %v, %d calls, %d bytes, want %d, %d", round, err, m.h.N, m.bytes, count, 3*count)
		}
		if m.elapsed <= 0 || ended != round {
			t.Fatalf("round %d: %v, ended %d times, want more than 0, %d", round, m.elapsed, ended, round)
		}
		for i := range made {
			if n := made[i].Load(); n != int32(round) {
				t.Fatalf("round %d: call %d was made %d times", round, i, n)
			}
		}
	}
}

// All slots call at once: each waits in its call until all others are in theirs.
func TestDepthIsTheCallsInFlight(t *testing.T) {
	const depth = 5
	var wg sync.WaitGroup
	wg.Add(depth)
	l := loop{slots: slots(depth), count: depth}
	l.op = func(*slot, int64) (int, error) {
		wg.Done()
		wg.Wait()
		return 0, nil
	}
	if m, err := l.run(t.Context()); err != nil || m.h.N != depth {
		t.Errorf("%v, %d calls", err, m.h.N)
	}
}

// A loop with no time left before its first call still makes one.
func TestTimedLoopMakesOneCall(t *testing.T) {
	l := loop{slots: slots(2), op: func(*slot, int64) (int, error) { return 1, nil }}
	if m, err := l.run(t.Context()); err != nil || m.h.N != 1 || m.bytes != 1 {
		t.Errorf("%v, %d calls", err, m.h.N)
	}
}

func TestTimedLoopEnds(t *testing.T) {
	const d = 10 * time.Millisecond
	l := loop{slots: slots(2), duration: d, op: func(*slot, int64) (int, error) { return 1, nil }}
	m, err := l.run(t.Context())
	if err != nil || m.h.N == 0 || m.elapsed < d {
		t.Errorf("%v, %d calls in %v, want at least %v", err, m.h.N, m.elapsed, d)
	}
}

func TestFirstErrorEndsTheLoop(t *testing.T) {
	bad := errors.New("bad")
	ended := false
	l := loop{slots: slots(4), duration: time.Hour, end: func() error { ended = true; return nil }}
	l.op = func(_ *slot, i int64) (int, error) {
		if i == 50 {
			return 0, bad
		}
		return 0, nil
	}
	if m, err := l.run(t.Context()); !errors.Is(err, bad) || m.h.N < 47 || !ended {
		t.Errorf("%v, %d calls, ended: %v", err, m.h.N, ended)
	}
	l.op = func(*slot, int64) (int, error) { return 0, nil }
	l.count, l.end = 1, func() error { return bad }
	if _, err := l.run(t.Context()); !errors.Is(err, bad) {
		t.Errorf("the end's own error: %v", err)
	}
}

func TestContextEndsTheLoop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := loop{slots: slots(3), duration: time.Hour}
	l.op = func(_ *slot, i int64) (int, error) {
		if i == 10 {
			cancel()
		}
		return 0, nil
	}
	if _, err := l.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Allocations by the loop would count as the client's. Only the loop's goroutines and closures
// allocate, and these few allocations are divided among many calls.
func TestLoopAllocatesNothingForACall(t *testing.T) {
	l := loop{slots: slots(2), count: 200_000, op: func(s *slot, _ int64) (int, error) {
		s.random(1 << 20)
		return 8, nil
	}}
	m, err := l.run(t.Context())
	if err != nil || m.allocs > 0.01 {
		t.Errorf("%v, %v allocations for each call", err, m.allocs)
	}
}

// Offsets are in range, the same in each run, and cover all blocks.
func TestRandomOffsets(t *testing.T) {
	const n, rounds = 64, 64 * 200
	var seen [n]int
	a, b := slot{rng: 42}, slot{rng: 42}
	for range rounds {
		x := a.random(n)
		if x < 0 || x >= n || x != b.random(n) {
			t.Fatalf("%d of %d", x, n)
		}
		seen[x]++
	}
	for i, k := range seen {
		if k < 100 || k > 300 { // 200 expected, with a deviation of about 14
			t.Errorf("block %d was taken %d times of %d", i, k, rounds)
		}
	}
	for range 100 {
		if x := a.random(1); x != 0 {
			t.Fatalf("%d of one block", x)
		}
	}
}
