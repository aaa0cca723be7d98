// READDIRPLUS on two processors: a helper goroutine describes entries ahead of the lister.

package osfs

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// partsMax is the largest number of parts in a buffer: an entry has at least 24 bytes.
const partsMax = direntBuf/24/partEntries + 1

// A parallelListing is one buffer of entries, shared by two goroutines: the lister, which emits the
// parts sequentially, and a helper. A goroutine claims a part before describing it. The lister
// claims a part directly before emitting it; both goroutines also claim parts some way ahead. The
// lister never waits for a goroutine that does not run, because it claims and describes every
// unclaimed part itself.
//
// The lister owns the buffer, the directory and its descriptor. It does not return before the
// helper has stopped using all three (leave).
type parallelListing struct {
	// Set by the lister before the helper starts.
	f     *FS
	d     *node
	fd    int
	now   time.Time
	b     []byte              // the entries, as getdents64(2) returned them
	start [partsMax + 1]int32 // start of each part in b
	parts int

	helped bool // a part from the helper was emitted; only the lister uses this

	at    atomic.Int32                        // the part being emitted
	stop  atomic.Bool                         // the helper has to stop
	help  atomic.Int32                        // helperNone, helperAsked, helperRuns, helperDone
	users atomic.Int32                        // number of goroutines that use the list
	claim [partsMax]atomic.Bool               // a goroutine describes the part, or has done so
	done  [partsMax]atomic.Bool               // the part is in ahead
	ahead [partsAhead][partEntries]entryAhead // part k is in ahead[k%partsAhead]
}

// States of the helper. A helper that has not started when the lister is done (helperDone) never
// touches the list.
const (
	helperNone int32 = iota
	helperAsked
	helperRuns
	helperDone
)

// An entryAhead is an entry described ahead, except its name; ok: the entry still exists.
type entryAhead struct {
	de nfsserver.Dirent
	ok bool
}

var parallelListings = sync.Pool{New: func() any { return new(parallelListing) }}

// split divides b into parts, and reports whether there are enough to share.
func (s *parallelListing) split(b []byte) bool {
	s.b, s.parts = b, 0
	var raw rawDirent
	n := 0
	for rest := b; ; n++ {
		if n%partEntries == 0 {
			s.start[s.parts] = int32(len(b) - len(rest))
			s.parts++
		}
		if rest = raw.next(rest); rest == nil {
			break
		}
	}
	if n%partEntries == 0 { // an empty part
		s.parts--
	}
	s.start[s.parts] = int32(len(b))
	return s.parts >= helperFirstPart+helperMinParts
}

// part returns the entries of part k.
func (s *parallelListing) part(k int) []byte { return s.b[s.start[k]:s.start[k+1]] }

// emitParallel is emitEntries with plus; ok reports whether there were enough entries to share.
func (f *FS) emitParallel(d *node, l *listing, b []byte, now time.Time, emit func(*nfsserver.Dirent) bool) (used int, ok bool) {
	s := parallelListings.Get().(*parallelListing)
	s.users.Store(1)
	defer s.release()
	if !s.split(b) {
		return 0, false
	}
	s.f, s.d, s.fd, s.now = f, d, l.fd, now
	for k := range s.parts {
		s.claim[k].Store(false)
		s.done[k].Store(false)
	}
	s.helped = false
	s.at.Store(0)
	s.stop.Store(false)
	s.help.Store(helperNone)
	defer s.leave()
	return s.emit(l, emit), true
}

// emit emits the entries sequentially. It returns the number of bytes before the first entry that
// emit refused, or len(b).
func (s *parallelListing) emit(l *listing, emit func(*nfsserver.Dirent) bool) (used int) {
	var de nfsserver.Dirent
	for k := range s.parts {
		s.at.Store(int32(k))
		if k == helperFirstPart {
			s.startHelper()
		}
		mine := s.claim[k].CompareAndSwap(false, true)
		if !mine {
			s.await(k)
			s.helped = true
		}
		var raw rawDirent
		part, i := s.part(k), 0
		for rest, next := part, raw.next(part); next != nil; rest, next = next, raw.next(next) {
			at := &de
			if !mine {
				at = &s.ahead[k%partsAhead][i].de
				at.Name = raw.name
			}
			ok := !mine && s.ahead[k%partsAhead][i].ok || mine && raw.ino != 0 && s.f.dirent(s.d, s.fd, &raw, true, s.now, at)
			if ok && !emit(at) {
				return int(s.start[k+1]) - len(rest)
			}
			l.pos = raw.off
			i++
		}
	}
	return len(s.b)
}

// startHelper starts a helper, unless the FS already has as many helpers as leave one processor
// free.
func (s *parallelListing) startHelper() {
	if int(s.f.helpers.Add(1)) >= runtime.GOMAXPROCS(0) {
		s.f.helpers.Add(-1)
		s.f.decisions.parallelListing.Pass()
		return
	}
	s.users.Add(1)
	s.help.Store(helperAsked)
	go s.runHelper()
}

// runHelper is the helper. It describes parts until it has to stop, or has found no part for a
// while.
func (s *parallelListing) runHelper() {
	if s.help.CompareAndSwap(helperAsked, helperRuns) {
		for idle := 0; !s.stop.Load() && idle < helperIdleYields; {
			if s.describeAhead() {
				idle = 0
			} else {
				idle++
				runtime.Gosched()
			}
		}
		s.help.Store(helperDone)
	}
	s.f.helpers.Add(-1)
	s.release()
}

// leave returns after the helper has stopped using the lister's buffer and directory.
func (s *parallelListing) leave() {
	s.stop.Store(true)
	if s.help.Load() != helperNone {
		s.f.decisions.parallelListing.Note(s.helped)
	}
	if !s.help.CompareAndSwap(helperAsked, helperDone) {
		pause(func() bool { return s.help.Load() != helperRuns })
	}
}

// pause returns when over returns true. While the other goroutine's thread runs, pause only yields.
func pause(over func() bool) {
	for turns := 0; !over(); turns++ {
		if turns < waitYields {
			runtime.Gosched()
		} else {
			time.Sleep(waitSleep)
		}
	}
}

// await waits until the helper has described part k. Meanwhile the lister describes other parts.
func (s *parallelListing) await(k int) {
	pause(func() bool { return s.done[k].Load() || s.describeAhead() && s.done[k].Load() })
}

// describeAhead describes the first unclaimed part after the part being emitted, and reports
// whether there was one. In ahead, part k replaces part k-partsAhead, which has been emitted.
func (s *parallelListing) describeAhead() bool {
	at := int(s.at.Load())
	for k := at + 1; k < min(at+partsAhead, s.parts); k++ {
		if s.claim[k].CompareAndSwap(false, true) {
			s.describe(k)
			s.done[k].Store(true)
			return true
		}
	}
	return false
}

func (s *parallelListing) describe(k int) {
	var raw rawDirent
	i := 0
	for b := raw.next(s.part(k)); b != nil; b = raw.next(b) {
		e := &s.ahead[k%partsAhead][i]
		e.ok = raw.ino != 0 && s.f.dirent(s.d, s.fd, &raw, true, s.now, &e.de)
		e.de.Name = nil
		i++
	}
}

// release ends one goroutine's use of the list. The last user returns the list to the pool.
func (s *parallelListing) release() {
	if s.users.Add(-1) == 0 {
		s.f, s.d, s.b = nil, nil, nil
		parallelListings.Put(s)
	}
}
