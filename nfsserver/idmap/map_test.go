// The cache: age, bounds, slow and failing look-ups, and replaced rules.

package idmap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A counted has a Lookup that returns a settable uid for each name, and counts its calls.
type counted struct {
	calls atomic.Int64

	mu  sync.Mutex
	uid map[string]uint32
}

func (c *counted) set(name string, uid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uid[name] = uid
}

func (c *counted) look(name string) (Identity, error) {
	c.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	uid, ok := c.uid[name]
	if !ok {
		return Identity{}, ErrNoUser
	}
	return Identity{UID: uid}, nil
}

func (c *counted) config() Config { return Config{Realms: []string{"R"}, Lookup: c.look} }

// wantUID checks the user to which a principal is mapped.
func wantUID(t *testing.T, m *Map, principal string, want uint32) {
	t.Helper()
	id, err := m.Identity(principal)
	if err != nil {
		t.Errorf("%s: %v, want uid %d", principal, err, want)
	}
	if id.UID != want {
		t.Errorf("%s: uid %d, want %d", principal, id.UID, want)
	}
}

// TestAges: an identity is used for one period, and the lack of an identity for a shorter one.
func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{uid: map[string]uint32{"a": 1}}
		m := New(c.config())
		wantUID(t, m, "a@R", 1)
		wantUID(t, m, "b@R", Anonymous)
		c.set("a", 2)
		c.set("b", 3)
		wantUID(t, m, "b@R", Anonymous)
		time.Sleep(unknownAge)
		wantUID(t, m, "b@R", 3)
		wantUID(t, m, "a@R", 1)
		time.Sleep(identityAge - unknownAge - 1)
		wantUID(t, m, "a@R", 1)
		time.Sleep(time.Nanosecond)
		wantUID(t, m, "a@R", 2)
		if n := c.calls.Load(); n != 4 {
			t.Errorf("%d look-ups, want 4", n)
		}
	})
}

// TestReplaceDropsIdentities: new rules apply to the next caller, even one whose old look-up ends
// later.
func TestReplaceDropsIdentities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		m := New(Config{Realms: []string{"R"}, Lookup: func(string) (Identity, error) { <-hold; return Identity{UID: 1}, nil }})
		early := make(chan uint32)
		go func() {
			id, _ := m.Identity("a@R")
			early <- id.UID
		}()
		synctest.Wait()
		m.Replace(Config{Realms: []string{"R"}, Lookup: func(string) (Identity, error) { return Identity{UID: 2}, nil }})
		wantUID(t, m, "a@R", 2)
		close(hold)
		if got := <-early; got != 1 {
			t.Errorf("the caller before Replace has uid %d, want 1", got)
		}
		wantUID(t, m, "a@R", 2)
		m.Replace(Config{})
		wantUID(t, m, "a@R", Anonymous)
	})
}

// TestSlowLookups: a caller waits for a bounded time, at most lookupsMost look-ups run, and all
// of them end.
func TestSlowLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, ended atomic.Int64
		m := New(Config{Realms: []string{"R"}, Lookup: func(string) (Identity, error) {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Minute)
			running.Add(-1)
			ended.Add(1)
			return Identity{UID: 7}, nil
		}})
		var group sync.WaitGroup
		for i := range 3 * lookupsMost {
			group.Go(func() {
				if _, err := m.Identity(fmt.Sprintf("u%d@R", i)); !errors.Is(err, ErrSlow) {
					t.Errorf("u%d: %v, want ErrSlow", i, err)
				}
			})
		}
		start := time.Now()
		group.Wait()
		if d := time.Since(start); d != lookupWait {
			t.Errorf("callers waited %v, want %v", d, lookupWait)
		}
		time.Sleep(3 * time.Minute)
		if n := most.Load(); n != lookupsMost {
			t.Errorf("%d look-ups at once, want %d", n, lookupsMost)
		}
		if n := ended.Load(); n != 3*lookupsMost {
			t.Errorf("%d look-ups ended, want %d", n, 3*lookupsMost)
		}
	})
}

// TestAFailedLookupMakesNobodyAnonymous: a failed look-up is an error, and is repeated after a
// short time.
func TestAFailedLookupMakesNobodyAnonymous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("down")
		err := failed
		m := New(Config{Realms: []string{"R"}, Lookup: func(string) (Identity, error) { return Identity{UID: 5}, err }})
		if _, got := m.Identity("a@R"); !errors.Is(got, failed) {
			t.Errorf("error %v, want %v", got, failed)
		}
		err = nil
		time.Sleep(unknownAge)
		wantUID(t, m, "a@R", 5)
	})
}

// TestCacheIsBounded: principals beyond mostCached displace others. If all places in the cache have
// look-ups running, a further principal gets an error.
func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{uid: map[string]uint32{}}
		m := New(c.config())
		for i := range 3 * mostCached {
			wantUID(t, m, fmt.Sprintf("u%d@R", i), Anonymous)
		}
		if n := len(m.cached); n > mostCached {
			t.Errorf("%d cached principals, want at most %d", n, mostCached)
		}
		hold := make(chan struct{})
		m.Replace(Config{Realms: []string{"R"}, Lookup: func(string) (Identity, error) { <-hold; return Identity{}, nil }})
		for i := range mostCached {
			m.entry(fmt.Sprintf("u%d@R", i))
		}
		if _, err := m.Identity("more@R"); !errors.Is(err, ErrSlow) {
			t.Errorf("with a full cache of running look-ups: %v, want ErrSlow", err)
		}
		close(hold)
	})
}

// TestCacheAgreesWithItsModel: random look-ups, changes, waits and Replaces run. A caller always
// gets a uid that the user has had within the identity's age, and since the last Replace.
func TestCacheAgreesWithItsModel(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			c := &counted{uid: map[string]uint32{}}
			m := New(c.config())
			type change struct {
				at  time.Time
				uid uint32
			}
			history := map[string][]change{}
			replaced := time.Now()
			for step := range uint32(60) {
				name := string(rune('a' + r.IntN(3)))
				switch r.IntN(8) {
				case 0:
					c.set(name, step)
					history[name] = append(history[name], change{time.Now(), step})
				case 1:
					m.Replace(c.config())
					replaced = time.Now()
				case 2:
					time.Sleep(time.Duration(r.Int64N(int64(identityAge))))
				default:
					id, err := m.Identity(name + "@R")
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					oldest := time.Now().Add(-identityAge)
					if replaced.After(oldest) {
						oldest = replaced
					}
					current, ok := Anonymous, false
					for _, h := range history[name] {
						if !h.at.Before(oldest) {
							ok = ok || id.UID == current
						}
						current = h.uid
					}
					if !ok && id.UID != current {
						t.Fatalf("seed %d, step %d: %s has uid %d, want %d or one since %v", seed, step, name, id.UID, current, oldest)
					}
				}
			}
		})
	}
}
