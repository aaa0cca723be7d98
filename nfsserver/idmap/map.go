// The cache of identities: bounded in number and age.

package idmap

import (
	"errors"
	"sync"
	"time"
)

// Limits of look-ups. Callers choose the principals, within their realms.
const (
	identityAge   = time.Minute     // how long an identity is used
	unknownAge    = 5 * time.Second // how long a principal without a user stays without
	lookupWait    = 5 * time.Second // how long a caller waits for a directory service
	mostCached    = 4096            // cached principals
	lookupsMost   = 8               // concurrent look-ups
	evictionTries = 8               // makeRoom gives up after more running look-ups
)

// ErrSlow means that the user database has not answered in time.
var ErrSlow = errors.New("the user database does not answer")

// A Map finds identities and caches them. A cached identity is wrong once the user, its groups or
// the rules change: Replace, called when the server reads its files again, drops all of them, and
// age drops each. A reader sees the old identity until then. The methods may be called
// concurrently.
type Map struct {
	now   func() time.Time // set once
	slots chan struct{}    // semaphore for look-ups

	mu     sync.Mutex // guards all below
	rules  *Config
	cached map[string]*entry
}

// An entry is a principal's identity. It does not change once ready is closed.
type entry struct {
	ready chan struct{}
	id    Identity
	err   error
	until time.Time // guarded by Map.mu; zero while the look-up runs
}

// New returns a Map with these rules.
func New(c Config) *Map {
	return &Map{now: time.Now, slots: make(chan struct{}, lookupsMost), rules: &c, cached: map[string]*entry{}}
}

// Replace changes the rules, and drops all cached identities.
func (m *Map) Replace(c Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules, m.cached = &c, map[string]*entry{}
}

// Identity returns the user that a principal such as alice@EXAMPLE.ORG stands for. It waits some
// seconds at most. Errors: ErrRefused, ErrSlow, or a failed look-up, after which a caller may try
// again.
func (m *Map) Identity(principal string) (Identity, error) {
	e := m.entry(principal)
	if e == nil {
		return Identity{}, ErrSlow
	}
	timer := time.NewTimer(lookupWait)
	defer timer.Stop()
	select {
	case <-e.ready:
		return e.id, e.err
	case <-timer.C:
		return Identity{}, ErrSlow
	}
}

// entry returns the cached entry, or a new one whose look-up it starts; nil: too many look-ups run.
func (m *Map) entry(principal string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.cached[principal]; e != nil && (e.until.IsZero() || m.now().Before(e.until)) {
		return e
	}
	if m.cached[principal] == nil && !m.makeRoom() {
		return nil
	}
	e := &entry{ready: make(chan struct{})}
	m.cached[principal] = e
	go m.fetch(principal, e, m.rules)
	return e
}

// makeRoom removes an entry from a full cache; false: it finds only running look-ups. The caller
// holds mu.
func (m *Map) makeRoom() bool {
	if len(m.cached) < mostCached {
		return true
	}
	tries := 0
	for principal, e := range m.cached {
		if !e.until.IsZero() {
			delete(m.cached, principal)
			return true
		}
		if tries++; tries > evictionTries {
			break
		}
	}
	return false
}

// fetch looks up a principal.
func (m *Map) fetch(principal string, e *entry, rules *Config) {
	m.slots <- struct{}{}
	e.id, e.err = rules.find(principal)
	<-m.slots
	age := identityAge
	if e.err != nil || e.id.UID == Anonymous {
		age = unknownAge
	}
	m.mu.Lock()
	e.until = m.now().Add(age)
	m.mu.Unlock()
	close(e.ready)
}
