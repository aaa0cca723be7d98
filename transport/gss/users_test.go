// The users that a Client remembers: their bound, and their end.

package gss

import (
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
)

// remembered returns the number of a Client's users.
func (c *Client) remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(len(c.users), len(c.all))
}

// TestUsersAreBounded: any number of users costs the memory of maxUsers, and the ones that have
// called last stay.
func TestUsersAreBounded(t *testing.T) {
	now := atomic.Int64{}
	c := NewClient(ClientConfig{now: func() time.Time { return time.Unix(now.Load(), 0) }})
	for i := range maxUsers + 100 {
		now.Add(1)
		c.Auth(strconv.Itoa(i), transport.ServiceNone)
		if i >= 50 {
			c.users["0"].use(c.cfg.now())
		}
	}
	if got := c.remembered(); got != maxUsers {
		t.Errorf("got %d users, want %d", got, maxUsers)
	}
	if c.users["0"] == nil {
		t.Error("the user that calls is forgotten")
	}
	if c.users["1"] != nil {
		t.Error("the user that has called least recently is remembered")
	}
	c.Close(bg, nil)
}

// TestIdleUserEnds: an idle user's context is dropped. Its next call makes another one, with the
// same Auth.
func TestIdleUserEnds(t *testing.T) {
	r := newRig(t, networks[0], nil)
	conn := r.client(transport.ClientConfig{})
	start := time.Now()
	var passed atomic.Int64
	g := NewClient(ClientConfig{Initiator: r.realm.initiator, now: func() time.Time { return start.Add(time.Duration(passed.Load())) }})
	as := g.Auth("alice", transport.ServiceNone)
	must.Succeed(t, add(bg, conn, as))
	u := g.users["alice"]
	passed.Store(int64(idleAge - time.Second))
	g.sweep()
	if u.current.Load() == nil {
		t.Error("before its end: got no context, want one")
	}
	passed.Store(int64(idleAge + time.Second))
	g.sweep()
	if u.current.Load() != nil {
		t.Error("after its end: got a context, want none")
	}
	if got := g.remembered(); got != 0 {
		t.Errorf("got %d users, want none", got)
	}
	must.Succeed(t, add(bg, conn, as))
	if got := r.gss.Figures().Created; got != 2 {
		t.Errorf("got %d contexts, want 2", got)
	}
	if got := g.remembered(); got != 1 {
		t.Errorf("after another call: got %d users, want 1", got)
	}
	passed.Add(int64(idleAge - time.Second))
	must.Succeed(t, add(bg, conn, as))
	passed.Add(int64(idleAge - time.Second))
	g.sweep()
	if u.current.Load() == nil {
		t.Error("a user that has called: got no context, want one")
	}
	g.Close(bg, conn)
}

// TestForgottenUserIsNotLost: a user that was forgotten and calls again, beside a new entry with
// its name, counts for the bound as well.
func TestForgottenUserIsNotLost(t *testing.T) {
	r := newRig(t, networks[0], nil)
	conn := r.client(transport.ClientConfig{})
	g := r.users()
	first := g.Auth("alice", transport.ServiceNone)
	must.Succeed(t, add(bg, conn, first))
	g.mu.Lock()
	g.forget(g.users["alice"])
	g.mu.Unlock()
	must.Succeed(t, add(bg, conn, g.Auth("alice", transport.ServiceNone)))
	must.Succeed(t, add(bg, conn, first))
	if got := g.remembered(); got != 2 {
		t.Errorf("got %d users, want 2", got)
	}
	g.Close(bg, conn)
	if got := r.gss.Figures().Contexts; got != 1 { // the forgotten user's, which ends by itself
		t.Errorf("after Close: got %d contexts, want 1", got)
	}
}

// TestIdleClientRemembersNone: the sweep runs by itself, and ends with the last user.
func TestIdleClientRemembersNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(ClientConfig{})
		for range 2 {
			c.Auth("alice", transport.ServiceNone)
			time.Sleep(idleAge / 2)
			c.Auth("bob", transport.ServiceNone)
			time.Sleep(2 * idleAge)
			synctest.Wait()
			if got := c.remembered(); got != 0 {
				t.Errorf("got %d users, want none", got)
			}
		}
	})
}
