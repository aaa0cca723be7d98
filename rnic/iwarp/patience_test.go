// When receivers of large transfers look for longer, in simulated time.

package iwarp

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/internal/look"
)

// waits has p look each microsecond for what comes after d, and reports whether it was still
// looking then.
func waits(p *patience, d time.Duration) (looking bool) {
	began := time.Unix(1, 0)
	looking = true
	for at := time.Duration(0); at < d && looking; at += time.Microsecond {
		looking = p.more(began.Add(at))
	}
	p.found(began.Add(d))
	return looking
}

func TestPatienceFollowsTheSender(t *testing.T) {
	var p patience
	for i, c := range []struct {
		comes   time.Duration
		looking bool
	}{
		{30 * time.Microsecond, true},
		{100 * time.Microsecond, false}, // and would have been found
		{100 * time.Microsecond, true},
		{30 * time.Microsecond, true},
		{patienceMost - time.Microsecond, true},
		{time.Millisecond, false}, // nor would it have been by looking longer
		{100 * time.Microsecond, false},
		{100 * time.Microsecond, true},
	} {
		if looking := waits(&p, c.comes); looking != c.looking {
			t.Errorf("%d, after %v: was looking %v, want %v", i, c.comes, looking, c.looking)
		}
	}
}

// Where others have the processor in between, it looks as often as it does at the least: a machine
// with much to do is no reason to sleep.
func TestPatienceCountsLooksWhereOthersWork(t *testing.T) {
	var p patience
	now := time.Unix(1, 0)
	for i := range leastLooks {
		if now = now.Add(time.Millisecond); !p.more(now) {
			t.Fatalf("it has looked %d times", i)
		}
	}
	if p.more(now.Add(time.Millisecond)) {
		t.Error("it goes on for longer than that")
	}
}

// Nobody waits for small calls while the receiver of a stream looks.
func TestPatienceIsShortBesideSmallCalls(t *testing.T) {
	var p patience
	waits(&p, 100*time.Microsecond)
	if !waits(&p, 100*time.Microsecond) {
		t.Fatal("it does not look for longer")
	}
	s := look.NewSleeper()
	s.Input()
	if waits(&p, 100*time.Microsecond) {
		t.Error("it looks for longer after a small call")
	}
}
