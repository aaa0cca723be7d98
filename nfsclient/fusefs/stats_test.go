// Differences between a mount's counters at two moments.

package fusefs

import (
	"maps"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// Counters cover the time between the moments, states are those of the later moment, and means and
// quantiles cover the calls between.
func TestFiguresSince(t *testing.T) {
	at := func(slow uint64) Stats {
		c := nfsclient.CallStats{Count: 10 + slow, Errors: slow, SentBytes: 100 * slow, Queue: 10 * time.Microsecond,
			RoundTrip: 10*time.Millisecond + time.Duration(slow)*time.Second, Times: []uint64{0, 0, 10, slow}}
		return Stats{
			Age: time.Duration(1+slow) * time.Second, Open: int(slow), AttrHits: 7 + slow,
			Operations: map[string]uint64{"READ": 5, "OPEN": slow}, Calls: map[string]CallStats{"READ": callStats(&c), "NULL": {Count: 3}},
			Mechanisms: map[string]rnic.Decisions{"spin": {Won: 5 + slow, Lost: 3, Passed: 2 * slow}},
			Memory:     int64(slow), Data: datapath.Stats{Dirty: int64(slow), Writes: 40 + int64(slow)},
		}
	}
	before := at(0)
	d := at(2).Since(&before)
	if d.Age != 2*time.Second {
		t.Errorf("age %v, want 2s", d.Age)
	}
	got := [5]int64{int64(d.Open), int64(d.AttrHits), d.Memory, d.Data.Dirty, d.Data.Writes}
	if want := [5]int64{2, 2, 2, 2, 2}; got != want {
		t.Errorf("open files, hits, memory, dirty bytes and WRITEs: got %v, want %v", got, want)
	}
	if want := map[string]uint64{"OPEN": 2}; !maps.Equal(d.Operations, want) {
		t.Errorf("operations: got %v, want %v", d.Operations, want)
	}
	if len(d.Calls) != 1 {
		t.Errorf("%d procedures, want 1", len(d.Calls))
	}
	if got, want := d.Mechanisms["spin"], (rnic.Decisions{Won: 2, Passed: 4}); got != want {
		t.Errorf("decisions of poll: got %+v, want %+v", got, want)
	}
	c := d.Calls["READ"]
	if got, want := [3]uint64{c.Count, c.Errors, c.SentBytes}, [3]uint64{2, 2, 200}; got != want {
		t.Errorf("calls, errors and bytes: got %v, want %v", got, want)
	}
	times := [2]time.Duration{c.RoundTripMean.Round(time.Millisecond), c.RoundTripP99}
	if want := [2]time.Duration{time.Second, nfsclient.TimeBucket(3)}; times != want {
		t.Errorf("mean and p99: got %v, want %v", times, want)
	}
}
