// The groups of this machine's users, from the machine's own databases.

package nfsserver

import (
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	groupsAge   = time.Minute     // how long a user's groups are cached
	groupsRetry = 5 * time.Second // how long a missing user or a failed lookup is cached
	groupsWait  = 5 * time.Second // how long a call waits for a directory service
	groupsMost  = 4096            // the most cached users
	// groupsAtOnce bounds concurrent lookups: each may need a process or a directory service's
	// answer, and remote callers choose the users.
	groupsAtOnce = 8
)

// A groupTable caches users' groups. The zero value looks them up by FileGroups.
type groupTable struct {
	lookup func(uid uint32) (gid uint32, gids []uint32, err error) // nil: FileGroups

	mu    sync.Mutex    // guards all below
	slots chan struct{} // semaphore for lookups; made with users
	users map[uint32]*userGroups
}

// userGroups are one user's groups, constant once ready is closed.
type userGroups struct {
	ready chan struct{}
	known bool // false: the machine has no such user
	gid   uint32
	gids  []uint32

	renew   time.Time // guarded by the table's mu, like renewal
	renewal bool      // another lookup for the user is running
}

// limit removes from w the groups that its user does not have. If even the primary group is
// foreign, limit replaces it by the user's own primary group, or by Nobody for an unknown user. A
// call without foreign groups allocates nothing.
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

// replace sets the supplementary groups of w to its user's groups on this machine.
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

// of returns a user's groups, or nil after a timeout or while too many users are being looked up.
// During a repeated lookup it returns the old groups once more.
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

// begin makes an entry for one more user; nil while all entries have lookups running. The caller
// holds mu.
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

// fetch looks up a user's groups and caches them.
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

// FileGroups returns a user's primary group and all groups from the user database: /etc/passwd and
// /etc/group or, in a build with cgo, the sources in nsswitch.conf. Options.Groups can use more
// sources.
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
