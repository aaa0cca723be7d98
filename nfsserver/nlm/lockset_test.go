// A file's locks compared with the kernel's own, and how other programs see them.

package nlm

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"golang.org/x/sys/unix"
)

// An ofd is an open file description, which the kernel treats as a lock owner.
type ofd struct {
	t *testing.T
	f *os.File
}

func openOFD(t *testing.T, path string) ofd {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatalf("os.OpenFile: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return ofd{t, f}
}

func flock(typ int16, s span) unix.Flock_t {
	l := unix.Flock_t{Type: typ, Start: int64(s.start)}
	if s.end < lastByte {
		l.Len = int64(s.end-s.start) + 1
	}
	return l
}

// set locks or unlocks, and reports whether the kernel allowed it.
func (d ofd) set(typ int16, s span) bool {
	d.t.Helper()
	l := flock(typ, s)
	err := unix.FcntlFlock(d.f.Fd(), unix.F_OFD_SETLK, &l)
	if err != nil && err != unix.EAGAIN {
		d.t.Fatal(err)
	}
	return err == nil
}

// conflicts returns the type of a lock that conflicts with a lock of type typ on s, or F_UNLCK if
// there is none.
func (d ofd) conflicts(typ int16, s span) int16 {
	d.t.Helper()
	l := flock(typ, s)
	if err := unix.FcntlFlock(d.f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		d.t.Fatalf("unix.FcntlFlock: %v", err)
	}
	return l.Type
}

const modelBytes = 24 // offsets from here on are treated as lastByte

// randomSpan returns a range within the first bytes, sometimes up to the end of the file.
func randomSpan(r *rand.Rand) span {
	s := span{start: r.Uint64N(modelBytes)}
	s.end = s.start + r.Uint64N(modelBytes-s.start)
	if r.IntN(6) == 0 {
		s.end = lastByte
	}
	return s
}

// probes returns a span for each of the first bytes, and one for the rest. Within a span all bytes
// are locked in the same way.
func probes() (list []span) {
	for i := range uint64(modelBytes) {
		list = append(list, span{i, i})
	}
	return append(list, span{modelBytes, lastByte})
}

var typeOf = map[nfsserver.LockType]int16{nfsserver.Unlocked: unix.F_UNLCK, nfsserver.Shared: unix.F_RDLCK, nfsserver.Exclusive: unix.F_WRLCK}

// TestLocksetIsAsTheKernels: every request has the same result as in the kernel with open file
// descriptions as owners. Afterwards every byte is locked as in the kernel.
func TestLocksetIsAsTheKernels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	r := rand.New(rand.NewPCG(1, 2))
	probe := openOFD(t, path)
	for range 20 {
		owners := make([]*owner, 4)
		files := make([]ofd, len(owners))
		for i := range owners {
			owners[i], files[i] = &owner{}, openOFD(t, path)
		}
		var set lockset
		for step := range 60 {
			i, s, exclusive := r.IntN(len(owners)), randomSpan(r), r.IntN(2) == 0
			o, typ := owners[i], typeOf[kindOf(exclusive)]
			if r.IntN(3) == 0 {
				files[i].set(unix.F_UNLCK, s)
				set.clear(o, s)
			} else {
				free := set.conflict(o, s, exclusive) == nil
				if seen := files[i].conflicts(typ, s) == unix.F_UNLCK; seen != free {
					t.Fatalf("step %d: %v exclusive %v is free: %v, the kernel has %v", step, s, exclusive, free, seen)
				}
				if granted := files[i].set(typ, s); granted != free {
					t.Fatalf("step %d: %v exclusive %v: granted %v, the kernel has %v", step, s, exclusive, free, granted)
				}
				if free {
					set.set(o, s, exclusive)
				}
			}
			for _, p := range probes() {
				// if several locks conflict, the kernel returns any of them, so compare only one
				if parts, got := set.parts(p), probe.conflicts(unix.F_WRLCK, p); len(parts) == 1 && got != typeOf[parts[0].kind] {
					t.Fatalf("step %d: bytes %v: %v, the kernel has %d", step, p, parts, got)
				}
			}
			checkShape(t, set)
		}
		for _, f := range files {
			f.f.Close()
		}
	}
}

// checkShape checks that locks are in order. Two locks of one owner must not overlap, and must not
// touch if they are of the same kind.
func checkShape(t *testing.T, set lockset) {
	t.Helper()
	for i, a := range set {
		if a.start > a.end {
			t.Fatalf("a lock from %d to %d", a.start, a.end)
		}
		if i > 0 && set[i-1].start > a.start {
			t.Fatalf("out of order: %v", set)
		}
		for _, b := range set[i+1:] {
			if a.owner != b.owner {
				continue
			}
			if a.overlaps(b.span) {
				t.Fatalf("one owner's locks %v and %v overlap", a.span, b.span)
			}
			if a.exclusive == b.exclusive && a.end+1 == b.start {
				t.Fatalf("one owner's locks %v and %v of one kind touch", a.span, b.span)
			}
		}
	}
}

// TestPartsOnOneDescription: for the kernel the server is a single owner. Yet another program sees
// each byte locked as strongly as by the strongest lock of a client.
func TestPartsOnOneDescription(t *testing.T) {
	dir := t.TempDir()
	probe := openOFD(t, filepath.Join(dir, "f"))
	fs, err := osfs.New(dir, osfs.Options{})
	if err != nil {
		t.Fatalf("osfs.New: %v", err)
	}
	t.Cleanup(func() { fs.Close() })
	ref, _, err := fs.Lookup(nfsserver.Self(), fs.Root(), "f")
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	locks, err := fs.OpenLocks(ref)
	if err != nil {
		t.Fatalf("OpenLocks: %v", err)
	}
	defer locks.Close()
	r := rand.New(rand.NewPCG(3, 4))
	owners := []*owner{{}, {}, {}}
	var set lockset
	for step := range 600 {
		o, s, exclusive := owners[r.IntN(len(owners))], randomSpan(r), r.IntN(3) == 0
		if r.IntN(3) == 0 {
			set.clear(o, s)
		} else if set.conflict(o, s, exclusive) == nil {
			set.set(o, s, exclusive)
		} else {
			continue
		}
		for _, p := range set.parts(s) {
			if err := locks.Set(p.start, p.end, p.kind); err != nil {
				t.Fatalf("step %d: %v: %v", step, p, err)
			}
		}
		for _, p := range probes()[:modelBytes] {
			if got, want := probe.conflicts(unix.F_WRLCK, p), typeOf[set.parts(p)[0].kind]; got != want {
				t.Fatalf("step %d: byte %v: the kernel has %d, want %d", step, p, got, want)
			}
		}
	}
}
