// The clock compared with package time.

package clock

import (
	"testing"
	"time"
)

// TestNow: Now never goes back, and lies between two readings of the monotonic clock.
func TestNow(t *testing.T) {
	before := time.Now()
	now := Now()
	after := time.Now()
	if now.Before(before) {
		t.Errorf("Now is %v before the time read earlier", before.Sub(now))
	}
	if now.After(after) {
		t.Errorf("Now is %v after the time read later", now.Sub(after))
	}
}

// TestAt: At returns the time at which Elapsed had a value.
func TestAt(t *testing.T) {
	elapsed := Elapsed()
	if got := time.Since(At(elapsed)); got < 0 || got > time.Minute {
		t.Errorf("At(%v) was %v ago, want a moment", elapsed, got)
	}
}
