// Metrics of the lock service.

package nlm

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// Figures are a Service's locks at one moment, and counters of request results.
type Figures struct {
	Held    int // locks and shares
	Waiting int // blocking requests: waiting, or granted and not yet confirmed by their clients
	Files   int // with locks, shares or waiters
	Clients int // clients with locks, and for a time those with earlier ones

	Granted uint64 // requests granted, at once or after waiting
	Blocked uint64 // requests answered NLM4_BLOCKED
	Denied  uint64 // refused requests, for any reason
	// locks released without a call of their owner: its client restarted, or the export is gone
	Lost uint64
}

// tally counts lock requests by result.
type tally struct{ granted, blocked, denied, lost atomic.Uint64 }

// note counts the reply to a request, and returns the reply.
func (t *tally) note(st nlm4.Status) nlm4.Status {
	switch st {
	case nlm4.Granted:
		t.granted.Add(1)
	case nlm4.Blocked:
		t.blocked.Add(1)
	default:
		t.denied.Add(1)
	}
	return st
}

// Figures returns the current figures.
func (s *Service) Figures() Figures {
	t := &s.tally
	f := Figures{Granted: t.granted.Load(), Blocked: t.blocked.Load(), Denied: t.denied.Load(), Lost: t.lost.Load()}
	g := &s.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	f.Held, f.Waiting, f.Files, f.Clients = g.used.locks, g.used.waiters, g.used.files, len(g.hosts)
	return f
}
