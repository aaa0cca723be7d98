// How a suspend of the machine is detected, with clocks that the test controls.

package fusefs

import (
	"io"
	"slices"
	"testing"
	"time"
)

// After each change of the clock, the suspended time since the change before counts. Merely setting
// the clock is no suspend.
func TestSleepIsNoticed(t *testing.T) {
	offsets := []time.Duration{5, 5, 5 + time.Hour, 5 + time.Hour + time.Millisecond, 5 + 3*time.Hour}
	next := -1
	var slept []time.Duration
	w := sleepWatch{
		wake: func() error {
			if next == len(offsets)-1 {
				return io.EOF
			}
			return nil
		},
		offset: func() time.Duration { next++; return offsets[next] },
		slept:  func(d time.Duration) { slept = append(slept, d) },
	}
	w.run()
	if want := []time.Duration{time.Hour, 2*time.Hour - time.Millisecond}; !slices.Equal(slept, want) {
		t.Errorf("%v, want %v", slept, want)
	}
}

// The kernel's timer for clock changes works, and stop ends the wait for it.
func TestClockAlarmEnds(t *testing.T) {
	a, err := newClockAlarm()
	if err != nil {
		t.Fatalf("new clock alarm: %v", err)
	}
	ended := make(chan error)
	go func() { ended <- a.wait() }()
	a.stop()
	if err := <-ended; err == nil {
		t.Error("the clock was changed")
	}
	a.stop()
	if d := sleepOffset(); d < 0 {
		t.Errorf("the clock that counts sleep is %v after the other", -d)
	}
}
