// The counters of a Client: that they count right, and take memory for what was called.

package nfsclient

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func TestCountersOnlyForCalledProcedures(t *testing.T) {
	c := &Client{calls: new(callCounts)}
	times := []time.Duration{1, 90 * time.Microsecond, 100 * time.Microsecond, 101 * time.Microsecond, time.Hour} // of three powers of two
	for _, d := range times {
		c.calls.observe(&procs[nfs3.ProcLookup], transport.CallFigures{RoundTrip: d, Sent: 10, Received: 20})
	}
	c.calls.refused(nfs3.ProcLookup)
	s := c.Calls()["LOOKUP"]
	if s.Count != 5 || s.Errors != 1 || s.SentBytes != 50 || s.ReceivedBytes != 100 || len(c.Calls()) != 1 {
		t.Errorf("%+v of %d procedures", s, len(c.Calls()))
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
		t.Errorf("counters of %d procedures, %d blocks of times", kept, blocks)
	}
}

// NLM_GRANTED_RES has the highest number of all, and is called when a server calls by GRANTED_MSG,
// as Linux's does.
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
