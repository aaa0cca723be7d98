// What a Client counts of its calls, for those who want to show it.

package nfsclient

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// CallStats is what the calls of one procedure have come to.
type CallStats struct {
	Count         uint64 // calls that have ended
	Errors        uint64 // of these, refused by the server or without an answer
	Retransmits   uint64 // times that one was sent again, over a new connection
	SentBytes     uint64 // of calls, their data included
	ReceivedBytes uint64 // of replies, likewise

	Queue     time.Duration // sum of the times that calls have waited to be sent
	RoundTrip time.Duration // sum of the times from then to the reply

	// Times counts round trips by their length: see TimeBucket. It has as many entries as are
	// needed.
	Times []uint64
}

// Each power of two of nanoseconds has timeSteps buckets: an error of 12 % at most.
const (
	timeBits    = 3
	timeSteps   = 1 << timeBits
	timeBuckets = (64 - timeBits) * timeSteps
)

// TimeBucket is the least duration that is counted in Times[i].
func TimeBucket(i int) time.Duration {
	if i < timeSteps {
		return time.Duration(i)
	}
	e := i>>timeBits - 1
	return time.Duration(timeSteps+i&(timeSteps-1)) << e
}

func timeBucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < timeSteps {
		return int(v)
	}
	e := bits.Len64(v) - timeBits - 1
	return (e+1)<<timeBits + int(v>>e)&(timeSteps-1)
}

// Quantile is the round trip that the share q of all stays at or under, to 12 %; 0 of none.
func (s *CallStats) Quantile(q float64) time.Duration {
	var all, seen uint64
	for _, n := range s.Times {
		all += n
	}
	want := uint64(q * float64(all))
	for i, n := range s.Times {
		if seen += n; n > 0 && seen > want {
			return TimeBucket(i)
		}
	}
	return 0
}

// callCounts is the counters of the procedures that have been called: most connections of many
// call few, and the counters of all would be most of the memory of an idle one.
// The procedures of NLM come after those of procs.
type callCounts [numProcs + nlm4.ProcGrantedRes + 1]atomic.Pointer[procCounts]

type procCounts struct {
	count, errors, retransmits, sent, received atomic.Uint64
	queue, roundTrip                           atomic.Int64
	times                                      [timeBuckets / timeSteps]atomic.Pointer[timeBlock] // nil: all are 0
}

// A timeBlock is the buckets of one power of two.
type timeBlock [timeSteps]atomic.Uint64

// orNew returns what p points at, which is made where that is nothing yet.
func orNew[T any](p *atomic.Pointer[T]) *T {
	if v := p.Load(); v != nil {
		return v
	}
	p.CompareAndSwap(nil, new(T))
	return p.Load()
}

// observe counts one call; it is a transport.ClientConfig.Observe.
func (c *callCounts) observe(p *transport.Proc, f transport.CallFigures) {
	proc := p.Proc
	switch {
	case p.Prog == nfs3.Program && proc < nfs3.NumProcs:
	case p.Prog == nfsacl3.Program && proc < numProcs-nfs3.NumProcs:
		proc += nfs3.NumProcs
	case p.Prog == nlm4.Program && proc < uint32(len(lockProcs)):
		proc += numProcs
	default:
		return
	}
	n := orNew(&c[proc])
	n.count.Add(1)
	if f.Err != nil {
		n.errors.Add(1)
	}
	if f.Retransmits > 0 {
		n.retransmits.Add(uint64(f.Retransmits))
	}
	n.sent.Add(uint64(f.Sent))
	n.received.Add(uint64(f.Received))
	n.queue.Add(int64(f.Queue))
	if f.RoundTrip > 0 {
		n.roundTrip.Add(int64(f.RoundTrip))
		b := timeBucket(f.RoundTrip)
		orNew(&n.times[b/timeSteps])[b%timeSteps].Add(1)
	}
}

// refused counts a reply that says no.
func (c *callCounts) refused(proc uint32) { orNew(&c[proc]).errors.Add(1) }

// Calls returns what the calls of each procedure have come to, by its name; those that were
// not made are not in it. All Clients that As has returned count together.
func (c *Client) Calls() map[string]CallStats {
	all := make(map[string]CallStats)
	for i := range c.calls {
		n := c.calls[i].Load()
		if n == nil {
			continue
		}
		s := CallStats{
			Count: n.count.Load(), Errors: n.errors.Load(), Retransmits: n.retransmits.Load(), SentBytes: n.sent.Load(), ReceivedBytes: n.received.Load(),
			Queue: time.Duration(n.queue.Load()), RoundTrip: time.Duration(n.roundTrip.Load()),
		}
		if s.Count == 0 {
			continue
		}
		for b := range timeBuckets {
			if block := n.times[b/timeSteps].Load(); block != nil && block[b%timeSteps].Load() > 0 {
				s.Times = append(s.Times, make([]uint64, b-len(s.Times))...)
				s.Times = append(s.Times, block[b%timeSteps].Load())
			}
		}
		if i < len(procs) {
			all[procs[i].Name] = s
		} else {
			all[lockProcs[i-len(procs)].Name] = s
		}
	}
	return all
}

// Mechanisms is Device.Mechanisms of the RNIC, which other clients may share; empty over
// TCP. The table is the caller's.
func (c *Client) Mechanisms() tally.Table {
	if c.opt.Transport != RDMA {
		return tally.Table{}
	}
	return c.opt.Device.Mechanisms()
}

// Links describes the connections.
func (c *Client) Links() (list []transport.LinkFigures) {
	for _, k := range c.conns {
		f := k.Figures()
		if f.Transport = c.opt.Transport.String(); c.opt.Transport == RDMA && !c.foreign {
			f.Transport = c.opt.Provider.String()
		}
		list = append(list, f)
	}
	return list
}
