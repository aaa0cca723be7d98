// The users of a connection's calls: the most recent ones, with their counts.

package nfsserver

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// maxUsers is the most users remembered for a connection; the least recent is dropped first.
const maxUsers = 32

// A User is a user of a client's calls, before squashing: claimed (AUTH_SYS) or proven
// (RPCSEC_GSS).
type User struct {
	UID       uint32
	Anonymous bool          // AUTH_NONE, or a principal without a user: no UID
	Principal string        // for RPCSEC_GSS; otherwise ""
	Flavor    oncrpc.Flavor // for RPCSEC_GSS, the pseudo-flavor
	Calls     uint64
	Idle      time.Duration // at most the time since the user's newest call
}

// A userKey is a user with the flavor of its calls.
type userKey struct {
	flavor    oncrpc.Flavor
	uid       uint32 // 0 without a user
	named     bool
	principal string
}

// userOf returns the user in a call's credential.
func userOf(c *transport.Call) userKey {
	key := userKey{flavor: c.Cred.Flavor, principal: c.Cred.Principal, named: namesUser(&c.Cred)}
	if key.named {
		key.uid = c.Cred.UID
	}
	return key
}

// userCalls counts one user's calls.
type userCalls struct {
	key   userKey // set once
	calls atomic.Uint64
	// When another user's call followed this user's last one, after usersEpoch; guarded by
	// users.mu.
	last time.Duration
}

// usersEpoch is the origin of times, because reading a monotonic duration is faster than a time.
var usersEpoch = time.Now()

// users are a connection's users. Most calls have the same user as the previous call. Such a call
// costs two atomic operations on the connection's own memory, but no lock and no clock. The zero
// value is ready.
type users struct {
	newest atomic.Pointer[userCalls]

	mu    sync.Mutex
	known []*userCalls // guarded by mu, like writes of newest: at most maxUsers, newest last
	other uint64       // guarded by mu: dropped users' calls
}

// count counts a call for a user.
func (u *users) count(key userKey) {
	n := u.newest.Load()
	if n == nil || n.key != key {
		n = u.change(key)
	}
	n.calls.Add(1)
}

// change makes a user the newest, and returns the user's counter.
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

// list describes the users, newest first, and returns the number of dropped users' calls. The
// newest user has been idle as long as the connection: for idle.
func (u *users) list(idle time.Duration) (list []User, other uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Since(usersEpoch)
	for _, k := range slices.Backward(u.known) {
		one := User{UID: k.key.uid, Anonymous: !k.key.named, Principal: k.key.principal, Flavor: k.key.flavor, Calls: k.calls.Load(), Idle: idle}
		if len(list) > 0 {
			one.Idle = max(idle, now-k.last)
		}
		list = append(list, one)
	}
	return list, u.other
}
