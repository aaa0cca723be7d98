// Trust at its limits: ports, and users' groups while the machine looks them up.

package nfsserver

import (
	"errors"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// TestReservedPortEdge: 1023 is the highest reserved port. An address without a port has no
// reserved port.
func TestReservedPortEdge(t *testing.T) {
	s := &Server{squash: Squash{ReservedPort: true}}
	for _, c := range []struct {
		from net.Addr
		ok   bool
	}{
		{&net.TCPAddr{Port: 1023}, true}, {&net.TCPAddr{Port: 1024}, false}, {&net.TCPAddr{Port: 1}, true},
		{nil, false}, {&net.UnixAddr{Name: "x"}, false},
	} {
		call := &transport.Call{Remote: c.from, Owner: transport.Owner{Kind: transport.OwnerRemote}}
		if why := s.distrust(call); (why == "") != c.ok {
			t.Errorf("%v: %q", c.from, why)
		}
	}
}

// TestGroupsOfMachine: groups come from the machine's own database.
func TestGroupsOfMachine(t *testing.T) {
	gid, gids, err := FileGroups(0)
	if err != nil {
		t.Errorf("FileGroups: %v", err)
	}
	if gid != 0 || !slices.Contains(gids, 0) {
		t.Errorf("root: primary group %d, groups %d, want 0 in both", gid, gids)
	}
	if _, _, err := FileGroups(3_999_999_999); err == nil {
		t.Error("a user that there is not has groups")
	}
}

// TestGroupsOfUnknownUser: an unknown user has no groups, not even those returned with the error.
func TestGroupsOfUnknownUser(t *testing.T) {
	table := groupTable{lookup: func(uint32) (uint32, []uint32, error) { return 5, []uint32{6}, errors.New("no such user") }}
	w := Cred{UID: 1000, GID: 5, GIDs: []uint32{5, 6, 7}}
	table.limit(&w)
	if w.UID != 1000 || w.GID != Nobody {
		t.Errorf("user %d, group %d, want 1000 and %d", w.UID, w.GID, Nobody)
	}
	if len(w.GIDs) != 0 {
		t.Errorf("groups %d, want none", w.GIDs)
	}
}

// TestGroupsAreLookedUpOnce: one look-up serves all calls for a minute. After that minute one
// goroutine looks up the groups again, while the old ones are still used.
func TestGroupsAreLookedUpOnce(t *testing.T) {
	lookups, answers := make(chan uint32), make(chan uint32)
	table := groupTable{lookup: func(uid uint32) (uint32, []uint32, error) {
		lookups <- uid
		return <-answers, nil, nil
	}}
	results := make(chan *userGroups)
	for range 4 {
		go func() { results <- table.of(7) }()
	}
	if uid := <-lookups; uid != 7 {
		t.Errorf("asked for %d", uid)
	}
	answers <- 70
	for range 4 {
		if u := <-results; u == nil || u.gid != 70 {
			t.Errorf("%+v", u)
		}
	}
	table.of(7)
	table.mu.Lock()
	table.users[7].renew = time.Now().Add(-time.Second)
	table.mu.Unlock()
	for range 3 {
		if u := table.of(7); u == nil || u.gid != 70 { // does not wait for the new look-up
			t.Errorf("%+v", u)
		}
	}
	<-lookups
	select {
	case <-lookups:
		t.Error("looked up twice at once")
	default:
	}
	answers <- 71
	for table.of(7).gid != 71 { // waits until the look-up has stored the new groups
		runtime.Gosched()
	}
}

// TestFailedLookupIsRepeated: a user gets the groups soon after the directory service answers
// again. Until then it is not queried for each call.
func TestFailedLookupIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, down := 0, true
		table := groupTable{lookup: func(uint32) (uint32, []uint32, error) {
			asked++
			if down {
				return 0, nil, errors.New("the directory service does not answer")
			}
			return 70, nil, nil
		}}
		call := func() bool {
			u := table.of(7)
			synctest.Wait()
			return u.has(70)
		}
		for range 3 {
			if call() {
				t.Error("groups without an answer")
			}
		}
		if asked != 1 {
			t.Errorf("%d lookups at once, want 1", asked)
		}
		down = false
		time.Sleep(groupsRetry + 1)
		call()
		if !call() {
			t.Errorf("no groups %v after the service answers", groupsRetry)
		}
		time.Sleep(groupsAge)
		if call(); asked != 2 {
			t.Errorf("%d lookups, want 2", asked)
		}
	})
}

// TestGroupsAreLookedUpAFewAtOnce: callers choose the users, so the number of concurrent look-ups
// is bounded. Other look-ups wait, and all callers get their result.
func TestGroupsAreLookedUpAFewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const users = 3*groupsAtOnce + 1
		var running, done atomic.Int32
		release := make(chan struct{})
		table := groupTable{lookup: func(uid uint32) (uint32, []uint32, error) {
			running.Add(1)
			defer running.Add(-1)
			<-release
			return uid + 100, nil, nil
		}}
		for uid := range uint32(users) {
			go func() {
				if u := table.of(uid); u == nil || u.gid != uid+100 {
					t.Errorf("user %d: %+v", uid, u)
				}
				done.Add(1)
			}()
		}
		for left := int32(users); left > 0; left-- {
			synctest.Wait()
			if n := running.Load(); n != min(left, groupsAtOnce) || done.Load() != users-left {
				t.Fatalf("%d lookups at once and %d done, with %d users left", n, done.Load(), left)
			}
			release <- struct{}{}
		}
		synctest.Wait()
		if done.Load() != users {
			t.Errorf("%d of %d calls have their groups", done.Load(), users)
		}
	})
}

// TestGroupsInTime: if the directory service hangs, the call loses only its groups. The user evicts
// no other users, and the service is not queried without end.
func TestGroupsInTime(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	table := groupTable{lookup: func(uint32) (uint32, []uint32, error) {
		<-release
		return 5, nil, nil
	}}
	w := Cred{UID: 7, GID: 5, GIDs: []uint32{5}}
	table.limit(&w)
	if w.GID != Nobody || len(w.GIDs) != 0 {
		t.Errorf("%+v", w)
	}
	table.mu.Lock()
	for uid := uint32(100); len(table.users) < groupsMost; uid++ {
		table.users[uid] = &userGroups{ready: make(chan struct{})}
	}
	full := table.begin(8)
	one := table.users[100]
	close(one.ready)
	next := table.begin(8)
	_, kept := table.users[100]
	table.mu.Unlock()
	if full != nil {
		t.Errorf("a full table has room: %v", full)
	}
	if next == nil || kept {
		t.Errorf("after one look-up: room %v, the old user kept %v, want room in its place", next != nil, kept)
	}
}
