// Counters of a Client's calls.

package nfsclient

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// CallStats has the counters of one procedure's calls.
type CallStats struct {
	Count         uint64 // ended calls
	Errors        uint64 // calls refused by the server or without an answer
	Retransmits   uint64 // retransmissions, over a new connection
	SentBytes     uint64 // of calls, including data
	ReceivedBytes uint64 // of replies, including data

	Queue     time.Duration // sum of the waits before sending
	RoundTrip time.Duration // sum of the times from sending to the reply

	// Times counts round trips by length: see TimeBucket. It is as long as needed.
	Times []uint64
}

// Each power of two in nanoseconds has timeSteps buckets: an error of at most 12 %.
const (
	timeBits    = 3
	timeSteps   = 1 << timeBits
	timeBuckets = (64 - timeBits) * timeSteps
)

// TimeBucket returns the shortest duration counted in Times[i].
func TimeBucket(i int) time.Duration {
	if i < timeSteps {
		return time.Duration(i)
	}
	e := i>>timeBits - 1
	return time.Duration(timeSteps+i&(timeSteps-1)) << e
}

// timeBucket returns the index of d in Times: see TimeBucket.
func timeBucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < timeSteps {
		return int(v)
	}
	e := bits.Len64(v) - timeBits - 1
	return (e+1)<<timeBits + int(v>>e)&(timeSteps-1)
}

// Quantile returns the round trip time that the share q of all calls did not exceed, within 12 %; 0
// without calls.
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

// callCounts has counters only for called procedures. Most connections call few procedures, and
// counters for all would use most of an idle connection's memory. NLM's procedures follow the
// procedures of procs.
type callCounts [numProcs + nlm4.ProcGrantedRes + 1]atomic.Pointer[procCounts]

// procCounts has the counters of one procedure. Its buckets are allocated by power of two on first
// use.
type procCounts struct {
	count, errors, retransmits, sent, received atomic.Uint64
	queue, roundTrip                           atomic.Int64

	// nil: all buckets are 0
	times [timeBuckets / timeSteps]atomic.Pointer[timeBlock]
}

// A timeBlock has the buckets for one power of two.
type timeBlock [timeSteps]atomic.Uint64

// orNew returns the value that p points at, after making it if p is nil.
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

// refused counts a refusal by the server.
func (c *callCounts) refused(proc uint32) { orNew(&c[proc]).errors.Add(1) }

// Calls returns the counters of the called procedures, by name. All Clients from As share them.
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

// Mechanisms returns Device.Mechanisms of the RNIC, which other clients may share; empty over TCP.
// The caller owns the table.
func (c *Client) Mechanisms() rnic.DecisionTable {
	if c.opt.Transport != RDMA {
		return rnic.DecisionTable{}
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
