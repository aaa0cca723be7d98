// The users that a Client remembers, and the end of their contexts.

package gss

import (
	"maps"
	"time"
)

// # A remembered user
//
// Auth makes an entry, and so does a call after the entry was forgotten. Its context is wrong, and
// is replaced, when the server refuses it, its numbers are used up, or its ticket ends. A user that
// logs out or gets other tickets keeps the context until then, as with Linux's client. An entry
// ends idleAge after its last call, or when another user needs its place. Then its keys are
// dropped; running calls keep the context, and later ones make another. The server gets no DESTROY:
// it bounds its contexts itself.

const (
	// maxUsers bounds the users of a Client.
	maxUsers = 4096
	// idleAge is the time without calls after which a user is forgotten. sweep runs four times in
	// it.
	idleAge = time.Hour
	// useStep is the accuracy of user.used, so that not every call writes it.
	useStep = time.Minute
)

// age returns a time in nanoseconds since the Client was made, which setting the clock does not
// change.
func (c *Client) age(now time.Time) int64 { return int64(now.Sub(c.made)) }

// use notes a call.
func (u *user) use(now time.Time) {
	if at := u.client.age(now); at-u.used.Load() >= int64(useStep) {
		u.used.Store(at)
	}
}

// store makes a context the current one. A sweep from here on finds it.
func (u *user) store(x *clientContext) {
	c := u.client
	c.mu.Lock()
	defer c.mu.Unlock()
	u.current.Store(x)
	c.remember(u)
}

// remember enters a user, and forgets the one that has called least recently if there are too many.
// The caller holds mu.
func (c *Client) remember(u *user) {
	if c.users[u.name] == nil {
		c.users[u.name] = u
	}
	c.all[u] = struct{}{}
	if len(c.all) > maxUsers {
		var oldest *user
		for other := range c.all {
			if other != u && (oldest == nil || other.used.Load() < oldest.used.Load()) {
				oldest = other
			}
		}
		c.forget(oldest)
	}
	if len(c.all) == 1 {
		c.sweepLater()
	}
}

// forget removes a user, and drops its context. The caller holds mu.
func (c *Client) forget(u *user) {
	delete(c.all, u)
	if c.users[u.name] == u {
		delete(c.users, u.name)
	}
	u.current.Store(nil)
}

// forgetAll removes all users, and returns them with their contexts.
func (c *Client) forgetAll() map[*user]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.all)
	clear(c.all)
	clear(c.users)
	if c.timer != nil {
		c.timer.Stop()
	}
	return all
}

// sweepLater schedules sweep. The caller holds mu.
func (c *Client) sweepLater() {
	if c.timer == nil {
		c.timer = time.AfterFunc(idleAge/4, c.sweep)
		return
	}
	c.timer.Reset(idleAge / 4)
}

// sweep forgets idle users, and schedules itself while there are others.
func (c *Client) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.age(c.cfg.now())
	for u := range c.all {
		if now-u.used.Load() > int64(idleAge) {
			c.forget(u)
		}
	}
	if len(c.all) > 0 {
		c.sweepLater()
	}
}
