// Killed processes, and the next mount that finds their journals.

package nlm

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// kill ends Locks like the end of the process: only the journal's lock is released.
func (l *Locks) kill() {
	l.end()
	l.work.Wait()
	_ = l.journal.file.Close()
}

// The next mount releases the locks of a killed process, but not those of a living process, nor
// those on another server.
func TestNextMountReleases(t *testing.T) {
	dir := t.TempDir()
	left := func(t *testing.T, want int) {
		t.Helper()
		if list, err := os.ReadDir(dir); err != nil || len(list) != want {
			t.Errorf("%d journals, %v, want %d", len(list), err, want)
		}
	}
	simulate(t, func(b *bench) {
		mount := func(source string) *Locks {
			l := New(Options{Server: b.m, Name: "host", Dir: dir, Source: source})
			synctest.Wait()
			return l
		}
		take := func(l *Locks, owner, start, end uint64) {
			b.Helper()
			b.want(l.Lock(context.Background(), nil, request(owner, start, end, true)), 0)
		}
		killed, lives, elsewhere := mount("a:/x"), mount("a:/x"), mount("b:/x")
		take(killed, 1, 0, 3)
		take(killed, 2, 4, 5)
		take(lives, 1, 8, 9)
		take(elsewhere, 1, 12, 13)
		killed.kill()
		elsewhere.kill()
		b.held("xxxxxx--xx--xx")
		left(t, 3)

		b.m.set(func() { b.m.graceEnd = time.Now().Add(30 * time.Second) }) // UNLOCK has to wait
		next := mount("a:/x")
		time.Sleep(time.Minute)
		b.held("--------xx--xx")
		left(t, 2)
		lives.Close(context.Background())
		next.Close(context.Background())
		left(t, 1)
	})
}

// The journal stays small while owners come and go beside a permanent one.
func TestJournalStaysSmall(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(b *bench) {
		l := New(Options{Server: b.m, Name: "host", Dir: dir, Source: "a:/x"})
		b.want(l.Lock(context.Background(), nil, request(1, 0, 0, true)), 0)
		for owner := range uint64(3 * journalSlack) {
			b.want(l.Lock(context.Background(), nil, request(owner+2, 1, 1, true)), 0)
			b.want(l.Release(context.Background(), testFH, Key{ID: owner + 2}), 0)
		}
		st, err := l.journal.file.Stat()
		if err != nil || st.Size() > 40*(journalSlack+10) {
			b.Errorf("%d bytes, %v", st.Size(), err)
		}
		l.kill()
		next := New(Options{Server: b.m, Name: "host", Dir: dir, Source: "a:/x"})
		synctest.Wait()
		b.held("")
		next.Close(context.Background())
	})
}

// A journal stays for the next mount if the server refuses: the search for its lock manager may
// have been too early.
func TestJournalOfAServerThatRefuses(t *testing.T) {
	dir := t.TempDir()
	simulate(t, func(b *bench) {
		mount := func() *Locks {
			l := New(Options{Server: b.m, Name: "host", Dir: dir, Source: "a:/x"})
			synctest.Wait()
			return l
		}
		killed := mount()
		b.want(killed.Lock(context.Background(), nil, request(1, 0, 3, true)), 0)
		killed.kill()
		b.m.set(func() { b.m.before = func(uint32) error { return syscall.ENOLCK } })
		early := mount()
		b.held("xxxx")
		b.m.set(func() { b.m.before = nil })
		next := mount()
		b.held("")
		early.Close(context.Background())
		next.Close(context.Background())
	})
}
