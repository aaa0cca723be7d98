// The replay cache of an acceptor (RFC 4120 §3.2.3).

package krb5

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxReplays bounds the cache. A full cache forgets its oldest authenticator. A replay of it gives
// the attacker no context: each context has a new subkey from the acceptor, and the reply with
// this subkey is encrypted.
const maxReplays = 1 << 16

// A replayCache has the authenticators of the last time. It is safe for concurrent use. Memory
// grows with the number of authenticators, to about 5 MB.
type replayCache struct {
	mu    sync.Mutex
	known map[replayID]struct{}
	order []replay // a ring from first, of len(known) entries
	first int
}

type replayID [16]byte

type replay struct {
	id   replayID
	ends time.Time // by then, its time is outside of the clock skew
}

// replayOf returns the identity of an encrypted authenticator. Its confounder makes each one
// unique.
func replayOf(cipher []byte) replayID {
	sum := sha256.Sum256(cipher)
	return replayID(sum[:16])
}

// add remembers an authenticator until ends, and reports whether it is new.
func (c *replayCache) add(id replayID, now, ends time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[id]; ok {
		return false
	}
	if c.known == nil {
		c.known = make(map[replayID]struct{})
	}
	for len(c.known) > 0 && (len(c.known) == maxReplays || now.After(c.order[c.first].ends)) {
		delete(c.known, c.order[c.first].id)
		c.first = (c.first + 1) % len(c.order)
	}
	if len(c.known) == len(c.order) {
		c.grow()
	}
	c.order[(c.first+len(c.known))%len(c.order)] = replay{id, ends}
	c.known[id] = struct{}{}
	return true
}

// grow doubles the ring.
func (c *replayCache) grow() {
	larger := make([]replay, max(16, 2*len(c.order)))
	n := copy(larger, c.order[c.first:])
	copy(larger[n:], c.order[:c.first])
	c.order, c.first = larger, 0
}
