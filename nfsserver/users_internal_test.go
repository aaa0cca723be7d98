// A connection's users: each call is counted once, from many goroutines, the newest users are
// known, and their number is bounded.

package nfsserver

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// sysUser returns the key of a user with AUTH_SYS.
func sysUser(uid uint32) userKey { return userKey{flavor: oncrpc.FlavorSys, uid: uid, named: true} }

func TestUsersOfAConnection(t *testing.T) {
	var u users
	if list, other := u.list(0); len(list) != 0 || other != 0 {
		t.Errorf("before any call: %v, %d", list, other)
	}
	for _, key := range []userKey{sysUser(1000), sysUser(1000), sysUser(0), {}, sysUser(1000)} {
		u.count(key)
	}
	list, other := u.list(3)
	if len(list) != 3 || other != 0 {
		t.Fatalf("users %+v and %d other calls, want 3 and 0", list, other)
	}
	if list[1].Idle > list[2].Idle {
		t.Errorf("idle for %v and %v, want the newer one first", list[1].Idle, list[2].Idle)
	}
	list[1].Idle, list[2].Idle = 0, 0
	if want := []User{{UID: 1000, Flavor: 1, Calls: 3, Idle: 3}, {Anonymous: true, Calls: 1}, {Flavor: 1, Calls: 1}}; !slices.Equal(list, want) {
		t.Errorf("users %+v, want %+v", list, want)
	}
	if n := testing.AllocsPerRun(100, func() { u.count(sysUser(1000)); u.count(sysUser(0)) }); n != 0 {
		t.Errorf("%v allocations for users that are known", n)
	}
	const more = 100_000
	for i := range uint32(more) {
		u.count(sysUser(1 << 31))
		u.count(sysUser(i))
	}
	list, other = u.list(0)
	if len(list) != maxUsers {
		t.Fatalf("%d users, want %d", len(list), maxUsers)
	}
	if list[0].UID != more-1 {
		t.Errorf("the newest user is %+v, want uid %d", list[0], more-1)
	}
	if list[1].UID != 1<<31 || list[1].Calls != more {
		t.Errorf("the user before is %+v, want uid %d with %d calls", list[1], 1<<31, more)
	}
	total := other
	for _, one := range list {
		total += one.Calls
	}
	list, _ = u.list(time.Hour)
	for _, one := range list {
		if one.Idle < time.Hour {
			t.Errorf("%+v has been idle for less than its connection", one)
		}
	}
	if want := uint64(5 + 2*101 + 2*more); total != want {
		t.Errorf("%d calls, %d were made", total, want)
	}
}

// TestUsersCountedAtOnce: calls on a connection are counted from several goroutines while its users
// are listed.
func TestUsersCountedAtOnce(t *testing.T) {
	const each = 1000
	var u users
	var all sync.WaitGroup
	for g := range uint32(4) {
		all.Go(func() {
			for i := range uint32(each) {
				u.count(sysUser((g + i/10) % maxUsers))
			}
		})
	}
	all.Go(func() {
		for range 100 {
			u.list(0)
		}
	})
	all.Wait()
	list, other := u.list(0)
	total := other
	for _, one := range list {
		total += one.Calls
	}
	if total != 4*each {
		t.Errorf("%d calls, want %d", total, 4*each)
	}
	if other != 0 || len(list) != maxUsers {
		t.Errorf("%d users and %d other calls, want %d and 0", len(list), other, maxUsers)
	}
}

// BenchmarkUsers measures counting a call of the same user as before, and of another user.
func BenchmarkUsers(b *testing.B) {
	for name, of := range map[string]uint32{"same": 1, "of2": 2, "of32": maxUsers} {
		b.Run(name, func(b *testing.B) {
			var u users
			for uid := uint32(0); b.Loop(); uid++ {
				u.count(sysUser(uid % of))
			}
		})
	}
}
