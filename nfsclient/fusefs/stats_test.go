// Differences of figures: what has happened between two looks at a mount.

package fusefs

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
)

// TestFiguresSince: what is counted is of the time between, what is held is of the later moment,
// and means and quantiles are those of the calls between.
func TestFiguresSince(t *testing.T) {
	at := func(slow uint64) Stats {
		c := nfsclient.CallStats{Count: 10 + slow, Errors: slow, SentBytes: 100 * slow, Queue: 10 * time.Microsecond,
			RoundTrip: 10*time.Millisecond + time.Duration(slow)*time.Second, Times: []uint64{0, 0, 10, slow}}
		return Stats{
			Age: time.Duration(1+slow) * time.Second, Open: int(slow), AttrHits: 7 + slow,
			Operations: map[string]uint64{"READ": 5, "OPEN": slow}, Calls: map[string]CallStats{"READ": callStats(&c), "NULL": {Count: 3}},
			Mechanisms: map[string]tally.Counts{"poll": {Won: 5 + slow, Lost: 3, Passed: 2 * slow}},
			Memory:     int64(slow), Data: datapath.Stats{Dirty: int64(slow), Writes: 40 + int64(slow)},
		}
	}
	before := at(0)
	d := at(2).Since(&before)
	if d.Age != 2*time.Second || d.Open != 2 || d.AttrHits != 2 || d.Memory != 2 || d.Data.Dirty != 2 || d.Data.Writes != 2 {
		t.Errorf("%+v", d)
	}
	if len(d.Operations) != 1 || d.Operations["OPEN"] != 2 || len(d.Calls) != 1 {
		t.Errorf("%+v", d)
	}
	if got, want := d.Mechanisms["poll"], (tally.Counts{Won: 2, Passed: 4}); got != want {
		t.Errorf("decisions of poll: got %+v, want %+v", got, want)
	}
	c := d.Calls["READ"]
	if c.Count != 2 || c.Errors != 2 || c.SentBytes != 200 || c.RoundTripMean.Round(time.Millisecond) != time.Second || c.RoundTripP99 != nfsclient.TimeBucket(3) {
		t.Errorf("%+v", c)
	}
}
