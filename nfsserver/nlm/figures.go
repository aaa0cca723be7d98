// What the lock service tells of itself when it is asked.

package nlm

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// Figures are the locks of a Service at one moment, and what has become of requests for locks.
type Figures struct {
	Held    int // locks, and shares
	Waiting int // blocking requests that wait, or have been granted and not been confirmed by their clients yet
	Files   int // with any of them
	Clients int // that are known: those that have locks, and for a time those that had some

	Granted uint64 // requests that got their lock, at once or after waiting
	Blocked uint64 // requests that were told to wait
	Denied  uint64 // requests that got none, for whatever reason
	Lost    uint64 // locks that were released without their owner asking: its client has started again, or the export is gone
}

// tally counts what has become of requests.
type tally struct{ granted, blocked, denied, lost atomic.Uint64 }

// note counts the answer to a request, and returns it.
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

// Figures returns the figures of this moment.
func (s *Service) Figures() Figures {
	t := &s.tally
	f := Figures{Granted: t.granted.Load(), Blocked: t.blocked.Load(), Denied: t.denied.Load(), Lost: t.lost.Load()}
	g := &s.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	f.Held, f.Waiting, f.Files, f.Clients = g.used.locks, g.used.waiters, g.used.files, len(g.hosts)
	return f
}
