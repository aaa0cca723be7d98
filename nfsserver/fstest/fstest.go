// Package fstest checks the contract of nfsserver.FS: one list of checks, run for each FS.
package fstest

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A Habit is an FS's permitted departure from the contract. Without the Habit a check reports it.
type Habit int

// The habits.
const (
	// Allocates: the layer below the FS allocates memory for each call.
	Allocates Habit = iota
	// ChargesHoles: Attr.Used includes holes, as quotas and Statfs do.
	ChargesHoles
	// NoHardLinks, NoSymlinks and NoSpecialFiles: the FS does not have such objects.
	NoHardLinks
	NoSymlinks
	NoSpecialFiles
	// SmallFiles: no file is larger than 1 GiB, because holes take memory.
	SmallFiles
)

// Run runs all checks, each on a new FS from mk, which it closes.
func Run(t *testing.T, mk func(t *testing.T) nfsserver.FS, habits ...Habit) {
	for _, group := range [][]check{attrChecks, dataChecks, nameChecks, renameChecks, dirChecks, refChecks, parallelChecks} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				fs := mk(t)
				t.Cleanup(func() {
					if err := fs.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				})
				c.run(&tree{T: t, FS: fs, me: nfsserver.Self(), root: fs.Root(), habits: habits})
			})
		}
	}
}

// A check is an entry of the list.
type check struct {
	name string
	run  func(*tree)
}

// A tree is an FS under test, with calls that fail the test.
type tree struct {
	*testing.T
	nfsserver.FS
	me   nfsserver.Cred // the caller
	root nfsserver.Ref

	habits []Habit
}

func (t *tree) has(h Habit) bool { return slices.Contains(t.habits, h) }

// mode returns attributes with mode m, for new objects.
func mode(m uint32) *nfsserver.SetAttr { return &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: m} }

// ok ends the test if err is not nil.
func (t *tree) ok(err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// want fails the test if err is not one of the wanted errors.
func (t *tree) want(err error, what string, wanted ...error) {
	t.Helper()
	for _, w := range wanted {
		if errors.Is(err, w) {
			return
		}
	}
	t.Errorf("%s: got %v, want %v", what, err, wanted)
}

// eq fails the test if got and want differ.
func eq[V comparable](t *tree, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func (t *tree) attr(r nfsserver.Ref) nfsserver.Attr {
	t.Helper()
	a, err := t.Getattr(r)
	t.ok(err, "Getattr")
	return a
}

func (t *tree) file(dir nfsserver.Ref, name string) nfsserver.Ref {
	t.Helper()
	r, _, err := t.Create(t.me, dir, name, mode(0o644))
	t.ok(err, "Create "+name)
	return r
}

func (t *tree) dir(dir nfsserver.Ref, name string) nfsserver.Ref {
	t.Helper()
	r, _, err := t.Mkdir(t.me, dir, name, mode(0o755))
	t.ok(err, "Mkdir "+name)
	return r
}

func (t *tree) link(dir nfsserver.Ref, name, target string) nfsserver.Ref {
	t.Helper()
	r, _, err := t.Symlink(t.me, dir, name, target, mode(0o777))
	t.ok(err, "Symlink "+name)
	return r
}

func (t *tree) find(dir nfsserver.Ref, name string) nfsserver.Ref {
	t.Helper()
	r, _, err := t.Lookup(t.me, dir, name)
	t.ok(err, "Lookup "+name)
	return r
}

func (t *tree) gone(dir nfsserver.Ref, name string) {
	t.Helper()
	_, _, err := t.Lookup(t.me, dir, name)
	t.want(err, "Lookup of what is gone, "+name, noEnt)
}

func (t *tree) stale(r nfsserver.Ref) {
	t.Helper()
	_, err := t.Getattr(r)
	for range 100 { // a busy server may return ErrBusy before it knows that r is gone
		if !errors.Is(err, syscall.ENOMEM) {
			break
		}
		time.Sleep(10 * time.Millisecond)
		_, err = t.Getattr(r)
	}
	t.want(err, "Getattr of what is gone", nfsserver.ErrStale, errStale)
}

func (t *tree) put(r nfsserver.Ref, data string, off uint64) {
	t.Helper()
	n, err := t.WriteAt(t.me, r, []byte(data), off)
	t.ok(err, "WriteAt")
	eq(t, "bytes written", n, len(data))
}

func (t *tree) get(r nfsserver.Ref, n int, off uint64) string {
	t.Helper()
	b := make([]byte, n)
	k, err := t.ReadAt(t.me, r, b, off)
	t.ok(err, "ReadAt")
	return string(b[:k])
}

// names lists a directory, in pages of at most page entries (0: one page).
func (t *tree) names(dir nfsserver.Ref, page int, plus bool) (names []string) {
	t.Helper()
	var cookie uint64
	for {
		n := 0
		eof, err := t.ReadDir(t.me, dir, cookie, plus, func(de *nfsserver.Dirent) bool {
			if page > 0 && n == page {
				return false
			}
			n++
			names = append(names, string(de.Name))
			cookie = de.Cookie
			return true
		})
		t.ok(err, "ReadDir")
		if eof {
			return names
		}
		if n == 0 {
			t.Fatal("ReadDir: no entry and no end")
		}
	}
}
