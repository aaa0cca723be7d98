// Locks held by a server's ended process, and kept by its next process.

package juicefs

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

func TestBytesWithoutOthers(t *testing.T) {
	const last = math.MaxInt64
	for _, c := range []struct {
		all  []span
		but  span
		want []span
	}{
		{[]span{{0, last}}, span{0, last}, nil},
		{[]span{{0, last}}, span{10, 19}, []span{{0, 9}, {20, last}}},
		{[]span{{5, 9}, {20, 29}}, span{0, 4}, []span{{5, 9}, {20, 29}}},
		{[]span{{5, 9}, {20, 29}}, span{9, 20}, []span{{5, 8}, {21, 29}}},
		{[]span{{5, 9}, {20, 29}}, span{6, last}, []span{{5, 5}}},
	} {
		if got := without(c.all, c.but); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v without %v is %v, want %v", c.all, c.but, got, c.want)
		}
	}
}

// locksOf returns a server's view of a file's locks.
func locksOf(t *testing.T, f *FS, name string) nfsserver.FileLocks {
	t.Helper()
	r, _, err := f.Lookup(superuser, f.Root(), name)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	l, err := f.OpenLocks(r)
	if err != nil {
		t.Fatalf("OpenLocks: %v", err)
	}
	return l
}

// taken checks which of the bytes 0, 20, 40 and 60 another server has locked.
func taken(t *testing.T, why string, l nfsserver.FileLocks, want ...uint64) {
	t.Helper()
	var got []uint64
	for _, at := range []uint64{0, 20, 40, 60} {
		if _, _, of, err := l.Test(at, at, nfsserver.Exclusive); err != nil {
			t.Fatalf("Test: %v", err)
		} else if of != nfsserver.Unlocked {
			got = append(got, at)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v are locked, want %v", why, got, want)
	}
}

// TestLocksOfTheProcessBefore: the next process of a server keeps the locks of the ended one,
// before its clients have called, and after they have released a part. In the end, locks that no
// client reclaims are free; others are not.
func TestLocksOfTheProcessBefore(t *testing.T) {
	onServices(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		first := openShared(t, Options{Meta: url, StateDir: dir})
		create(t, first, first.Root(), "locked")
		l := locksOf(t, first, "locked")
		for at, kind := range map[uint64]nfsserver.LockType{0: nfsserver.Exclusive, 20: nfsserver.Exclusive, 40: nfsserver.Shared, 60: nfsserver.Shared} {
			if err := l.Set(at, at+9, kind); err != nil {
				t.Fatalf("Set at: %v", err)
			}
		}
		other := openShared(t, Options{Meta: url, StateDir: dir}) // the state directory is in use
		defer closeFS(t, other)
		others := locksOf(t, other, "locked")
		taken(t, "before", others, 0, 20, 40, 60)

		first.session.close() // acts as the end of the process
		next := openShared(t, Options{Meta: url, StateDir: dir})
		defer closeFS(t, next)
		again := locksOf(t, next, "locked")
		taken(t, "of the next process", others, 0, 20, 40, 60)
		taken(t, "to itself", again)
		for at, kind := range map[uint64]nfsserver.LockType{0: nfsserver.Exclusive, 40: nfsserver.Shared} {
			if err := again.Set(at, at+9, kind); err != nil {
				t.Errorf("what was locked from %d is reclaimed: %v", at, err)
			}
		}
		for _, at := range []uint64{0, 40} {
			if err := again.Set(0, at+9, nfsserver.Unlocked); err != nil {
				t.Errorf("Set: %v", err)
			}
		}
		// Other clients may still reclaim their part of the shared locks.
		taken(t, "released by who had reclaimed it", others, 20, 40, 60)
		if err := again.Set(60, 65, nfsserver.Shared); err != nil {
			t.Errorf("Set: %v", err)
		}
		if err := others.Set(20, 20, nfsserver.Shared); !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("what a client is to reclaim another server gets: %v", err)
		}
		first.EndGrace() // no effect: first keeps no locks
		next.EndGrace()
		next.EndGrace()
		<-next.grace.ended
		taken(t, "in the end", others, 60)
		start, end, _, err := others.Test(0, 100, nfsserver.Exclusive)
		if err != nil {
			t.Errorf("Test: %v", err)
		}
		if start != 60 || end != 65 {
			t.Errorf("in the end %d to %d are locked, want 60 to 65", start, end)
		}
		if err := again.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		taken(t, "closed", others)
		sessions(t, next, 2)
		first.session = sessionFile{}
		closeFS(t, first)
	})
}

// TestKeptLocksEnd: kept locks end with the grace period, or with the server if the server ends
// first. A removed file does not delay the release of others. Locks that JuiceFS lists with another
// owner, as in key-value stores, also end.
func TestKeptLocksEnd(t *testing.T) {
	onServices(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		first := openShared(t, Options{Meta: url, StateDir: dir})
		// At the end of any heartbeat, a volume left open would be checked, although its service is
		// gone.
		defer closeFS(t, first)
		for _, name := range []string{"locked", "removed"} {
			create(t, first, first.Root(), name)
			if err := locksOf(t, first, name).Set(0, 9, nfsserver.Exclusive); err != nil {
				t.Fatalf("locksOf.Set: %v", err)
			}
		}
		other := openShared(t, Options{Meta: url})
		defer closeFS(t, other)
		others := locksOf(t, other, "locked")
		if err := other.Remove(superuser, other.Root(), "removed"); err != nil {
			t.Fatalf("Remove: %v", err)
		}
		first.session.close() // acts as the end of the process
		first.session = sessionFile{}
		next := openShared(t, Options{Meta: url, StateDir: dir})
		defer closeFS(t, next)
		again := func() {
			next.grace.close()
			next.grace = graceLocks{}
			s, err := next.m.GetSession(numberOf(t, next), true)
			if err != nil || len(s.Plocks) != 2 {
				t.Fatalf("the session of the process before: %+v, %v", s, err)
			}
			for i := range s.Plocks {
				s.Plocks[i].Owner = s.Sid + lockOwner
			}
			next.grace.hold(next.m, s)
		}
		again()
		again()
		taken(t, "while it is kept", others, 0)
		next.EndGrace()
		<-next.grace.ended
		taken(t, "after it", others)
	})
}

// numberOf returns the number of a server's session, which the server's next process continues.
func numberOf(t *testing.T, f *FS) uint64 {
	t.Helper()
	r, err := f.session.read()
	if err != nil || r.Session == 0 {
		t.Fatalf("the session that is handed on: %+v, %v", r, err)
	}
	return r.Session
}

// TestLateProcessReleasesLocks: if a process starts when the previous session is about to expire,
// it begins a new session. The first client that requests a lock gets it.
func TestLateProcessReleasesLocks(t *testing.T) {
	onServices(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		// This session expires within one heartbeat of the next process.
		first, err := Open(Options{Meta: url, StateDir: dir, Heartbeat: soleHeartbeat / 6})
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		sid := numberOf(t, first)
		create(t, first, first.Root(), "locked")
		l := locksOf(t, first, "locked")
		for _, at := range []uint64{0, 20} {
			if err := l.Set(at, at+9, nfsserver.Exclusive); err != nil {
				t.Fatalf("Set: %v", err)
			}
		}
		first.session.close() // acts as the end of the process
		next := openShared(t, Options{Meta: url, StateDir: dir})
		defer closeFS(t, next)
		if now := numberOf(t, next); now == sid {
			t.Errorf("session %d is about to end, and goes on", sid)
		}
		if in, err := next.m.GetSession(sid, false); err == nil {
			t.Errorf("%+v is still there", in)
		}
		other := openShared(t, Options{Meta: url})
		defer closeFS(t, other)
		others, again := locksOf(t, other, "locked"), locksOf(t, next, "locked")
		for _, c := range []struct {
			by   nfsserver.FileLocks
			at   uint64
			want error
		}{{again, 0, nil}, {others, 20, nil}, {others, 0, syscall.EAGAIN}, {again, 20, syscall.EAGAIN}} {
			if err := c.by.Set(c.at, c.at+9, nfsserver.Exclusive); !errors.Is(err, c.want) {
				t.Errorf("bytes from %d: %v, want %v", c.at, err, c.want)
			}
		}
		first.session = sessionFile{}
		closeFS(t, first)
	})
}

// TestSlowProcessReleasesLocks: while a process opens the volume, the previous session nearly
// expires. Another server may be about to clean up that session, so the process keeps no locks in
// it.
func TestSlowProcessReleasesLocks(t *testing.T) {
	onServices(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		first := openShared(t, Options{Meta: url, StateDir: dir})
		sid := numberOf(t, first)
		create(t, first, first.Root(), "locked")
		if err := locksOf(t, first, "locked").Set(0, 9, nfsserver.Exclusive); err != nil {
			t.Fatalf("locksOf.Set: %v", err)
		}
		first.session.close() // acts as the end of the process
		asked := 0
		now = func() time.Time {
			if asked++; asked > 1 { // from here on the session has been chosen
				return time.Now().Add(5*soleHeartbeat - soleHeartbeat/lateAfter)
			}
			return time.Now()
		}
		next := openShared(t, Options{Meta: url, StateDir: dir})
		defer closeFS(t, next)
		now = time.Now
		if asked != 2 {
			t.Errorf("it was looked at the time %d times", asked)
		}
		if at := numberOf(t, next); at == sid {
			t.Errorf("session %d goes on, though others have perhaps seen its end", sid)
		}
		taken(t, "when the session was renewed too late", locksOf(t, next, "locked"))
		sessions(t, next, 1)
		first.session = sessionFile{}
		closeFS(t, first)
	})
}

// sessions checks the number of sessions in the volume.
func sessions(t *testing.T, f *FS, want int) {
	t.Helper()
	list, err := f.m.ListSessions()
	if err != nil || len(list) != want {
		t.Errorf("%d sessions, %v, want %d", len(list), err, want)
		for _, s := range list {
			t.Logf("%+v", s)
		}
	}
}

// TestSessionsThatAreNotContinued: a server continues no session whose process may still run, no
// session that has ended, and none whose file has other content.
func TestSessionsThatAreNotContinued(t *testing.T) {
	url, _, _ := newVolume(t)
	dir := t.TempDir()
	f := openShared(t, Options{Meta: url, StateDir: dir})
	sid := numberOf(t, f)
	create(t, f, f.Root(), "locked")
	if err := locksOf(t, f, "locked").Set(0, 9, nfsserver.Exclusive); err != nil {
		t.Fatalf("locksOf.Set: %v", err)
	}

	copied := filepath.Join(t.TempDir(), "copied")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatalf("os.CopyFS: %v", err)
	}
	for of, dir := range map[string]string{"the same directory": dir, "a copy of it": copied, "no directory": ""} {
		g := openShared(t, Options{Meta: url, StateDir: dir})
		taken(t, "to a server of "+of+" while the process runs", locksOf(t, g, "locked"), 0)
		if g.grace.ended != nil {
			t.Errorf("a server of %s keeps locks of another process", of)
		}
		closeFS(t, g)
	}

	right, err := f.session.read()
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	for what, change := range map[string]func(r *sessionRecord){
		"this":                           func(*sessionRecord) {},
		"of another run of the kernel":   func(r *sessionRecord) { r.Boot = "2e2ba9cf-8a1e-4cf4-a5a6-1d6f8c0c3a01" },
		"of another inode":               func(r *sessionRecord) { r.Inode++ },
		"of another file system":         func(r *sessionRecord) { r.Device++ },
		"whose number is given again":    func(r *sessionRecord) { r.Since = r.Since.Add(-time.Nanosecond) },
		"which the volume does not know": func(r *sessionRecord) { r.Session += 1000 },
	} {
		r := right
		change(&r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		rewrite(t, f.session, b)
		want := sid
		if what != "this" {
			want = 0
		}
		if got, until := f.session.earlier(f.m); got != want || until.After(time.Now()) != (want != 0) {
			t.Errorf("with a session %s a server goes on with %d (until %v), want %d", what, got, until, want)
		}
		rewrite(t, f.session, b[:len(b)-1])
		if got, _ := f.session.earlier(f.m); got != 0 {
			t.Errorf("with a file that was not written to its end a server goes on with %d", got)
		}
	}
	rewrite(t, f.session, nil)
	if got, _ := f.session.earlier(f.m); got != 0 {
		t.Errorf("with an empty file a server goes on with %d", got)
	}
	in, err := f.m.GetSession(sid, false)
	if err == nil {
		err = f.session.write(in)
	}
	if err != nil {
		t.Fatal(err)
	}

	closeFS(t, f) // also ends the session
	next := openShared(t, Options{Meta: url, StateDir: dir})
	defer closeFS(t, next)
	if now := numberOf(t, next); now == sid {
		t.Errorf("session %d has ended, and goes on", sid)
	}
	if next.grace.ended != nil {
		t.Error("locks of a session that has ended are kept")
	}
}

// rewrite replaces the content of a session's file.
func rewrite(t *testing.T, s sessionFile, b []byte) {
	t.Helper()
	err := s.Truncate(0)
	if err == nil {
		_, err = s.WriteAt(b, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}
