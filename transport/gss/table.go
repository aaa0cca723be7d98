// The server's contexts: their handles, and their bounds by host.

package gss

import (
	"container/heap"
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// handleLen is the size of a context's handle: random bytes, which cannot be guessed.
const handleLen = 16

type handle [handleLen]byte

// A serverContext is a context at the server, or one in creation.
type serverContext struct {
	protection                // nil Context in creation
	next       Acceptor       // in creation: takes the next token
	failed     *failureCounts // the server's; nil in creation
	cred       transport.Cred
	ends       time.Time // of the ticket
	handle     handle
	window     window
	used       atomic.Bool  // a call since evict last looked
	last       atomic.Int64 // time of the last call, in Unix seconds

	// Guarded by the table's mu.
	host *hostContexts
	elem *list.Element // in host.list; nil: removed
}

// Credential is part of transport.Protection; a server sends none.
func (c *serverContext) Credential(*transport.Secured) []byte { return nil }

// Open implements transport.Protection.
func (c *serverContext) Open(s *transport.Secured, d *xdr.Decoder) error {
	err := c.protection.Open(s, d)
	if err != nil {
		c.failed.count(ReasonBody)
	}
	return err
}

// Overhead implements transport.Protection.
func (c *serverContext) Overhead(s *transport.Secured) int { return c.overhead(s) }

// A table has the contexts of one kind. A new context above a limit replaces one that has been
// unused for the longest time: of the same host at the host's limit, otherwise of the host with
// the most. So a host that creates contexts without end loses only its own.
type table struct {
	most, mostPerHost int
	idle              time.Duration

	mu       sync.RWMutex // guards all below
	byHandle map[handle]*serverContext
	hosts    map[netip.Prefix]*hostContexts
	largest  hostHeap
	swept    time.Time
	evicted  uint64
}

// hostContexts are the contexts of one host (an IPv4 address or an IPv6 /64).
type hostContexts struct {
	prefix netip.Prefix
	list   list.List // of *serverContext; roughly the longest unused first
	index  int       // in table.largest
}

func (t *table) init(most, mostPerHost int, idle time.Duration) {
	t.most, t.mostPerHost, t.idle = most, mostPerHost, idle
	t.byHandle, t.hosts = map[handle]*serverContext{}, map[netip.Prefix]*hostContexts{}
}

// find returns the context with a handle, or nil.
func (t *table) find(h []byte) *serverContext {
	if len(h) != handleLen {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byHandle[handle(h)]
}

// touch marks a context as used.
func (c *serverContext) touch(now time.Time) {
	if s := now.Unix(); c.last.Load() != s {
		c.last.Store(s)
	}
	if !c.used.Load() {
		c.used.Store(true)
	}
}

// add adds c for a host, and makes room for it.
func (t *table) add(c *serverContext, remote net.Addr, now time.Time) {
	c.last.Store(now.Unix())
	prefix := transport.HostOf(remote)
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.swept) >= sweepEvery {
		t.sweep(now)
	}
	if h := t.hosts[prefix]; h != nil && h.list.Len() >= t.mostPerHost {
		t.evict(h)
	}
	if len(t.byHandle) >= t.most {
		t.evict(t.largest[0])
	}
	h := t.hosts[prefix] // evict may have removed it
	if h == nil {
		h = &hostContexts{prefix: prefix}
		t.hosts[prefix] = h
		heap.Push(&t.largest, h)
	}
	t.byHandle[c.handle] = c
	c.host, c.elem = h, h.list.PushBack(c)
	heap.Fix(&t.largest, h.index)
}

// evict removes one of h's contexts. A context that has been used since the last look gets a
// second chance.
func (t *table) evict(h *hostContexts) {
	for range h.list.Len() {
		e := h.list.Front()
		c := e.Value.(*serverContext)
		if !c.used.Swap(false) {
			break
		}
		h.list.MoveToBack(e)
	}
	t.drop(h.list.Front().Value.(*serverContext))
	t.evicted++
}

// sweepEvery is the time between two searches for contexts that have ended or are idle.
const sweepEvery = time.Minute

// sweep removes contexts that are useless. The caller holds mu.
func (t *table) sweep(now time.Time) {
	t.swept = now
	for _, c := range t.byHandle {
		if t.stale(c, now) || !c.ends.IsZero() && !now.Before(c.ends) {
			t.drop(c)
		}
	}
}

// stale reports whether c has been idle for too long.
func (t *table) stale(c *serverContext, now time.Time) bool {
	return now.Unix()-c.last.Load() > int64(t.idle/time.Second)
}

// remove removes c, and reports whether the table had it: of two concurrent calls one succeeds.
func (t *table) remove(c *serverContext) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drop(c)
}

// drop is remove under mu.
func (t *table) drop(c *serverContext) bool {
	if c.elem == nil {
		return false
	}
	h := c.host
	h.list.Remove(c.elem)
	c.elem, c.host = nil, nil
	delete(t.byHandle, c.handle)
	if h.list.Len() > 0 {
		heap.Fix(&t.largest, h.index)
		return true
	}
	heap.Remove(&t.largest, h.index)
	delete(t.hosts, h.prefix)
	return true
}

func (t *table) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byHandle)
}

// A hostHeap has the host with the most contexts first.
type hostHeap []*hostContexts

func (h hostHeap) Len() int           { return len(h) }
func (h hostHeap) Less(i, j int) bool { return h[i].list.Len() > h[j].list.Len() }

func (h hostHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *hostHeap) Push(x any) {
	c := x.(*hostContexts)
	c.index = len(*h)
	*h = append(*h, c)
}

// Pop implements heap.Interface.
func (h *hostHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
