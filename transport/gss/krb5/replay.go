// The replay cache of an acceptor (RFC 4120 §3.2.3).

package krb5

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxReplays bounds the cache. A full cache forgets its oldest authenticator. Even then a replay
// gives an attacker no context: the acceptor makes a new subkey for each context, and sends it
// encrypted.
const maxReplays = 1 << 16

// A replayCache has the authenticators within the clock skew. It is safe for concurrent use. Memory
// grows with their number, to about 5 MB.
type replayCache struct {
	mu    sync.Mutex
	known map[replayID]struct{}
	order []replay // a ring from first, of len(known) entries
	first int
}

type replayID [16]byte

type replay struct {
	id   replayID
	ends time.Time // afterwards the authenticator's time is outside the clock skew
}

// replayOf identifies an encrypted authenticator. Its confounder makes it unique.
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
