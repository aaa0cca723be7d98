// The groups of this machine's users, as the machine itself has them.

package nfsserver

import (
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"
)

// How long the groups of a user are kept, how long it is kept that there are none, or that a lookup
// failed, how long a call waits where the machine asks a directory service, and how many users are
// kept.
const (
	groupsAge   = time.Minute
	groupsRetry = 5 * time.Second
	groupsWait  = 5 * time.Second
	groupsMost  = 4096
	// groupsAtOnce bounds the lookups that run at once: each may be a process or a
	// question to a directory service, and remote callers choose the users.
	groupsAtOnce = 8
)

// A groupTable knows the groups of users. The zero value asks the machine.
type groupTable struct {
	lookup func(uid uint32) (gid uint32, gids []uint32, err error) // nil: FileGroups

	mu    sync.Mutex    // guards all below
	slots chan struct{} // has an element for each lookup that runs; set with users
	users map[uint32]*userGroups
}

// userGroups are the groups of one user: once ready is closed they do not change.
type userGroups struct {
	ready chan struct{}
	known bool // false: the machine has no such user
	gid   uint32
	gids  []uint32

	renew   time.Time // guarded by the table's mu, as is renewing
	renewal bool      // they are being looked up again
}

// limit takes out of w the groups that its user does not have. Where even the primary
// one is not his, it becomes the one he has; a user that the machine does not know has none.
// A call with groups of its own only allocates nothing.
func (t *groupTable) limit(w *Cred) {
	u := t.of(w.UID)
	foreign := func(g uint32) bool { return !u.has(g) }
	if foreign(w.GID) {
		w.GID = Nobody
		if u != nil && u.known {
			w.GID = u.gid
		}
	}
	if slices.ContainsFunc(w.GIDs, foreign) {
		w.GIDs = slices.DeleteFunc(slices.Clone(w.GIDs), foreign)
	}
}

// replace gives w the supplementary groups that its user has here. What it said of
// them is not looked at.
func (t *groupTable) replace(w *Cred) {
	w.GIDs = nil
	if u := t.of(w.UID); u != nil && u.known {
		w.GIDs = u.gids
	}
}

// has reports whether a user has group g; u may be nil.
func (u *userGroups) has(g uint32) bool {
	return u != nil && u.known && (g == u.gid || slices.Contains(u.gids, g))
}

// of returns the groups of a user, or nil where they are not there in time. Those
// that are old are used once more while they are looked up again.
func (t *groupTable) of(uid uint32) *userGroups {
	now := time.Now()
	t.mu.Lock()
	u := t.users[uid]
	switch {
	case u == nil:
		if u = t.begin(uid); u == nil {
			t.mu.Unlock()
			return nil
		}
		t.users[uid] = u
		go t.fetch(uid, u)
	case now.After(u.renew) && !u.renewal:
		u.renewal = true
		go t.fetch(uid, &userGroups{ready: make(chan struct{})})
	}
	t.mu.Unlock()
	select {
	case <-u.ready:
		return u
	default:
	}
	timer := time.NewTimer(groupsWait)
	defer timer.Stop()
	select {
	case <-u.ready:
		return u
	case <-timer.C:
		return nil
	}
}

// begin makes room for one more user; nil while all there are are being looked up. The
// caller holds mu.
func (t *groupTable) begin(uid uint32) *userGroups {
	if t.users == nil {
		t.users = map[uint32]*userGroups{}
		t.slots = make(chan struct{}, groupsAtOnce)
	}
	for other, u := range t.users {
		if len(t.users) < groupsMost {
			break
		}
		select {
		case <-u.ready:
			delete(t.users, other)
		default:
		}
	}
	if len(t.users) >= groupsMost {
		return nil
	}
	return &userGroups{ready: make(chan struct{}), renew: time.Now().Add(groupsAge + groupsWait)}
}

// fetch looks the groups of a user up and puts them in the table.
func (t *groupTable) fetch(uid uint32, u *userGroups) {
	lookup := t.lookup
	if lookup == nil {
		lookup = FileGroups
	}
	t.slots <- struct{}{} // users, and with it slots, was set before any fetch
	gid, gids, err := lookup(uid)
	<-t.slots
	u.gid, u.gids, u.known = gid, gids, err == nil
	close(u.ready)
	t.mu.Lock()
	defer t.mu.Unlock()
	age := groupsAge
	if err != nil {
		age = groupsRetry
	}
	u.renew, u.renewal = time.Now().Add(age), false
	t.users[uid] = u
}

// FileGroups returns the primary and all groups of a user. It asks the user database: /etc/passwd
// and /etc/group or, in a build with cgo, whatever nsswitch.conf names. Options.Groups may know
// more.
func FileGroups(uid uint32) (gid uint32, gids []uint32, err error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return 0, nil, err
	}
	primary, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return 0, nil, err
	}
	list, err := u.GroupIds()
	for _, g := range list {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil {
			gids = append(gids, uint32(n))
		}
	}
	return uint32(primary), gids, err
}
