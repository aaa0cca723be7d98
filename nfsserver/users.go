// The users that the calls of a connection were made as: the newest of them, each with its calls.

package nfsserver

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// maxUsers is how many users of a connection are known at most: those that have called last.
const maxUsers = 32

// A User is one that a client has made calls as, by its word (AUTH_SYS): before any squashing.
type User struct {
	UID       uint32
	Anonymous bool // of AUTH_NONE: it has no UID
	Calls     uint64
	Idle      time.Duration // since its newest call, or less where it is the connection's newest user
}

// userKey is a user as one number: its uid, or anonymous.
type userKey uint64

const anonymous userKey = 1 << 32

func userOf(c *transport.Call) userKey {
	if c.Cred.Flavor != oncrpc.FlavorSys {
		return anonymous
	}
	return userKey(c.Cred.UID)
}

// userCalls are the calls of one user.
type userCalls struct {
	key   userKey // set once
	calls atomic.Uint64
	last  time.Duration // when it called last, after usersEpoch, once another user has called after it; guarded by users.mu
}

// usersEpoch is what times count from: the clock of durations is quicker to ask than that of times.
var usersEpoch = time.Now()

// users are those of a connection. Most calls come from the user that made the call before: they
// cost two atomic operations on memory of their connection, no lock, no look at the clock. The zero
// value is ready.
type users struct {
	newest atomic.Pointer[userCalls]

	mu    sync.Mutex
	known []*userCalls // guarded by mu, as newest is for writing: maxUsers at most, newest last
	other uint64       // guarded by mu: calls of those that were known, and had to make room
}

// count notes a call of a user.
func (u *users) count(key userKey) {
	n := u.newest.Load()
	if n == nil || n.key != key {
		n = u.change(key)
	}
	n.calls.Add(1)
}

// change makes a user the newest one.
func (u *users) change(key userKey) *userCalls {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := u.newest.Load(); n != nil {
		n.last = time.Since(usersEpoch)
	}
	var n *userCalls
	at := slices.IndexFunc(u.known, func(k *userCalls) bool { return k.key == key })
	if at >= 0 {
		n = u.known[at]
	} else {
		n = &userCalls{key: key}
		if len(u.known) < maxUsers {
			u.known = append(u.known, nil)
			at = len(u.known) - 1
		} else {
			u.other += u.known[0].calls.Load()
			at = 0
		}
	}
	copy(u.known[at:], u.known[at+1:])
	u.known[len(u.known)-1] = n
	u.newest.Store(n)
	return n
}

// list describes the users, the newest first, and the calls of those that are not known any more.
// The newest has been idle as long as its connection.
func (u *users) list(idle time.Duration) (list []User, other uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Since(usersEpoch)
	for _, k := range slices.Backward(u.known) {
		one := User{UID: uint32(k.key), Anonymous: k.key == anonymous, Calls: k.calls.Load(), Idle: idle}
		if len(list) > 0 {
			one.Idle = max(idle, now-k.last)
		}
		list = append(list, one)
	}
	return list, u.other
}
