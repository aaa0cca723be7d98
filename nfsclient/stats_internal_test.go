// A Client's counters: their values, and memory only for called procedures.

package nfsclient

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func TestCountersOnlyForCalledProcedures(t *testing.T) {
	c := &Client{calls: new(callCounts)}
	// durations in three classes, which are powers of two
	times := []time.Duration{1, 90 * time.Microsecond, 100 * time.Microsecond, 101 * time.Microsecond, time.Hour}
	for _, d := range times {
		c.calls.observe(&procs[nfs3.ProcLookup], transport.CallFigures{RoundTrip: d, Sent: 10, Received: 20})
	}
	c.calls.refused(nfs3.ProcLookup)
	s := c.Calls()["LOOKUP"]
	if got, want := [4]uint64{s.Count, s.Errors, s.SentBytes, s.ReceivedBytes}, [4]uint64{5, 1, 50, 100}; got != want {
		t.Errorf("calls, errors, bytes sent and received: got %v, want %v", got, want)
	}
	if n := len(c.Calls()); n != 1 {
		t.Errorf("%d procedures, want 1", n)
	}
	for _, d := range times {
		if i := timeBucket(d); i >= len(s.Times) || s.Times[i] == 0 {
			t.Errorf("%v is not counted", d)
		}
	}
	kept, blocks := 0, 0
	for i := range c.calls {
		if n := c.calls[i].Load(); n != nil {
			kept++
			for b := range n.times {
				if n.times[b].Load() != nil {
					blocks++
				}
			}
		}
	}
	if kept != 1 || blocks != 3 {
		t.Errorf("counters of %d procedures, %d blocks of times, want 1, 3", kept, blocks)
	}
}

// The counters include GRANTED_RES, NLM's highest procedure number. It is called when a server
// calls back with GRANTED_MSG, as Linux's does.
func TestCallsToTheLockManagerAreCounted(t *testing.T) {
	c := &Client{calls: new(callCounts)}
	for i := range lockProcs {
		p := &lockProcs[i]
		if p.Name == "" {
			continue
		}
		c.calls.observe(p, transport.CallFigures{RoundTrip: time.Millisecond})
		if c.Calls()[p.Name].Count != 1 {
			t.Errorf("%s is not counted", p.Name)
		}
	}
}
