// The server's window and the client's numbers against models.

package gss

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestWindowModel: random numbers around the window's ends are taken as RFC 2203 says.
func TestWindowModel(t *testing.T) {
	conformance.Proves(t, "R2203-037", "R2203-038")
	for round := range 200 {
		rng := rand.New(rand.NewPCG(29, uint64(round)))
		var w window
		seen := map[uint32]bool{}
		last, top := uint32(0), rng.Uint32N(maxSeq-100000)
		if round%2 == 0 {
			top = 0
		}
		for range 3000 {
			seq := top + rng.Uint32N(3*windowSize)
			if rng.IntN(100) == 0 {
				top += rng.Uint32N(3 * windowSize)
			}
			if rng.IntN(4) == 0 && last >= windowSize {
				seq = last - windowSize + rng.Uint32N(3) - 1 // the lower end
			}
			want := !seen[seq] && (seq > last || last-seq < windowSize)
			if got := w.fresh(seq); got != want {
				t.Fatalf("round %d: fresh(%d) after %d is %v, want %v", round, seq, last, got, want)
			}
			if got := w.take(seq); got != want {
				t.Fatalf("round %d: take(%d) after %d is %v, want %v", round, seq, last, got, want)
			}
			if want {
				seen[seq], last = true, max(last, seq)
			}
		}
	}
}

func TestWindowEnds(t *testing.T) {
	var w window
	for _, step := range []struct {
		seq  uint32
		want bool
	}{
		{0, true}, {0, false}, {512, true}, {0, false}, {1, true}, {1, false}, {511, true}, {513, true}, {1, false}, {2, true},
		{513 + 511, true}, {513, false}, {514, true}, {512, false}, {maxSeq - 1, true}, {maxSeq - 1 - 511, true}, {maxSeq - 1 - 512, false},
	} {
		if got := w.take(step.seq); got != step.want {
			t.Errorf("take(%d) = %v, want %v", step.seq, got, step.want)
		}
	}
}

// TestWindowOnce: of concurrent copies of each number, one is taken.
func TestWindowOnce(t *testing.T) {
	var w window
	var mu sync.Mutex
	taken := map[uint32]int{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for seq := range uint32(windowSize) {
				if w.take(seq) {
					mu.Lock()
					taken[seq]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for seq := range uint32(windowSize) {
		if taken[seq] != 1 {
			t.Errorf("%d was taken %d times, want once", seq, taken[seq])
		}
	}
}

// TestOutstandingModel: the numbers rise, and no more than the window are in use. A server drops no
// call, whatever their order within the client's limits.
func TestOutstandingModel(t *testing.T) {
	conformance.Proves(t, "R2203-020", "R2203-029")
	for round := range 50 {
		rng := rand.New(rand.NewPCG(30, uint64(round)))
		size := 1 + rng.Uint32N(windowSize)
		var o outstanding
		o.init(1, size)
		var server window
		var unsent, sent []uint32
		last := uint32(0)
		for range 5000 {
			switch {
			case rng.IntN(2) == 0 && uint32(len(unsent)+len(sent)) < size && o.next-o.oldest < size:
				seq, ok, err := o.begin(context.Background(), time.Time{})
				if err != nil || !ok || seq <= last {
					t.Fatalf("begin = %d, %v, %v after %d", seq, ok, err, last)
				}
				last, unsent = seq, append(unsent, seq)
			case rng.IntN(2) == 0 && len(unsent) > 0:
				i := rng.IntN(len(unsent))
				if !server.take(unsent[i]) {
					t.Fatalf("round %d: number %d is dropped by the server", round, unsent[i])
				}
				sent = append(sent, unsent[i])
				unsent = append(unsent[:i], unsent[i+1:]...)
			case len(sent) > 0:
				i := rng.IntN(len(sent))
				o.end(sent[i])
				sent = append(sent[:i], sent[i+1:]...)
			}
		}
	}
}

// TestOutstandingWaits: calls wait for room, until their time ends.
func TestOutstandingWaits(t *testing.T) {
	var o outstanding
	o.init(1, 2)
	for range 2 {
		if _, ok, err := o.begin(context.Background(), time.Time{}); !ok || err != nil {
			t.Fatalf("begin: %v, %v", ok, err)
		}
	}
	if _, _, err := o.begin(context.Background(), time.Now().Add(time.Millisecond)); err != context.DeadlineExceeded {
		t.Errorf("begin without room: %v, want DeadlineExceeded", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := o.begin(ctx, time.Time{}); !errors.Is(err, context.Canceled) {
		t.Errorf("begin after cancel: %v, want Canceled", err)
	}
	got := make(chan uint32)
	go func() {
		seq, _, _ := o.begin(context.Background(), time.Time{})
		got <- seq
	}()
	o.end(1)
	if seq := <-got; seq != 3 {
		t.Errorf("number %d after room, want 3", seq)
	}
}

// TestOutstandingSlow: one call without an answer delays others only for a while.
func TestOutstandingSlow(t *testing.T) {
	var o outstanding
	o.init(1, 4)
	next := func() uint32 {
		seq, ok, err := o.begin(context.Background(), time.Time{})
		if !ok || err != nil {
			t.Fatalf("begin: %v, %v", ok, err)
		}
		return seq
	}
	slow := next()
	for range 3 {
		o.end(next())
	}
	start := time.Now()
	five := next()
	if took := time.Since(start); took < slowest {
		t.Errorf("number %d came after %v beside the unanswered %d, want a pause of %v", five, took, slow, slowest)
	}
	o.end(five)
	o.end(slow)
	if o.count != 0 || o.oldest != o.next {
		t.Errorf("at the end: %d in use, oldest %d, next %d", o.count, o.oldest, o.next)
	}
}

// TestOutstandingBound: a call that was passed over as slow still counts: no more calls than the
// window are outstanding.
func TestOutstandingBound(t *testing.T) {
	conformance.Proves(t, "R2203-020")
	synctest.Test(t, func(t *testing.T) {
		var o outstanding
		o.init(1, 3)
		next := func(until time.Time) (uint32, error) {
			seq, _, err := o.begin(t.Context(), until)
			return seq, err
		}
		for want := uint32(1); want <= 4; want++ { // after a pause, 4 no longer waits for 1
			seq, err := next(time.Time{})
			if seq != want || err != nil {
				t.Fatalf("number %d, %v, want %d", seq, err, want)
			}
			if seq == 2 {
				o.end(2)
			}
		}
		if seq, err := next(time.Now().Add(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a fourth call beside 1, 3 and 4 has number %d, %v; want a wait", seq, err)
		}
		o.end(3)
		if seq, err := next(time.Time{}); seq != 5 || err != nil {
			t.Errorf("number %d, %v after the end of 3, want 5", seq, err)
		}
	})
}

// TestOutstandingSpent: no number reaches MAXSEQ.
func TestOutstandingSpent(t *testing.T) {
	conformance.Proves(t, "R2203-030")
	var o outstanding
	o.init(maxSeq-1, 8)
	seq, ok, err := o.begin(context.Background(), time.Time{})
	if seq != maxSeq-1 || !ok || err != nil {
		t.Errorf("begin = %#x, %v, %v", seq, ok, err)
	}
	if _, ok, err := o.begin(context.Background(), time.Time{}); ok || err != nil || !o.spent() {
		t.Errorf("begin at the end = %v, %v, want no number", ok, err)
	}
}
