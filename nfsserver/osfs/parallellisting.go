// A listing with attributes that two processors make: a second goroutine describes entries whose
// turn has not come.

package osfs

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// partsMax is the most parts that a buffer of entries can have, each of 24 bytes at least.
const partsMax = direntBuf/24/partEntries + 1

// A shared is what two goroutines know of one buffer of entries. Its parts are emitted in order by
// the one that lists; each is described by the one that has claimed it: the first directly before
// it emits it, or either some parts ahead of that. So the first never waits for a goroutine that
// the scheduler does not run: what nobody has claimed it does itself.
//
// The buffer, the directory and its descriptor are the first's: it does not return before the
// second is out of them (leave).
type sharedList struct {
	// set by the first before the second is started
	f     *FS
	d     *node
	fd    int
	now   time.Time
	b     []byte              // the entries
	start [partsMax + 1]int32 // of the parts in b
	parts int

	helped bool // a part has been emitted that the second described; only the first has this

	at    atomic.Int32                        // the part that is emitted
	stop  atomic.Bool                         // nothing more is needed
	help  atomic.Int32                        // helpNone, helpAsked, helpRuns, helpOver
	users atomic.Int32                        // goroutines that have not let go of it
	claim [partsMax]atomic.Bool               // somebody describes the part, or has done so
	done  [partsMax]atomic.Bool               // it is in ahead
	ahead [partsAhead][partEntries]entryAhead // of part k in ahead[k%partsAhead]
}

// What the second goroutine does. One that has not begun when the first is done never touches the
// list.
const (
	helpNone int32 = iota
	helpAsked
	helpRuns
	helpOver
)

// An entryAhead is an entry that has been described before its turn, all but its name; ok: it is
// there.
type entryAhead struct {
	de nfsserver.Dirent
	ok bool
}

var sharedLists = sync.Pool{New: func() any { return new(sharedList) }}

// split finds the parts of b, and reports whether there are enough to share.
func (s *sharedList) split(b []byte) bool {
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
	if n%partEntries == 0 { // an empty one
		s.parts--
	}
	s.start[s.parts] = int32(len(b))
	return s.parts >= helpFrom+helpParts
}

// part is the entries of part k.
func (s *sharedList) part(k int) []byte { return s.b[s.start[k]:s.start[k+1]] }

// emitTogether is emitEntries with plus, if there are enough entries to share: ok.
func (f *FS) emitTogether(d *node, l *listing, b []byte, now time.Time, emit func(*nfsserver.Dirent) bool) (used int, ok bool) {
	s := sharedLists.Get().(*sharedList)
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
	s.help.Store(helpNone)
	defer s.leave()
	return s.emit(l, emit), true
}

// emit emits the entries in order. It returns the number of bytes before the first one that emit
// refused, all if there is none.
func (s *sharedList) emit(l *listing, emit func(*nfsserver.Dirent) bool) (used int) {
	var de nfsserver.Dirent
	for k := range s.parts {
		s.at.Store(int32(k))
		if k == helpFrom {
			s.ask()
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

// ask starts the second goroutine, unless the FS has as many as leave one processor for everything
// else.
func (s *sharedList) ask() {
	if int(s.f.helpers.Add(1)) >= runtime.GOMAXPROCS(0) {
		s.f.helpers.Add(-1)
		s.f.decisions.parallelListing.Pass()
		return
	}
	s.users.Add(1)
	s.help.Store(helpAsked)
	go s.second()
}

// second describes what it can have until nothing more is needed, or there is nothing for some
// time.
func (s *sharedList) second() {
	if s.help.CompareAndSwap(helpAsked, helpRuns) {
		for idle := 0; !s.stop.Load() && idle < idleTurns; {
			if s.describeNext() {
				idle = 0
			} else {
				idle++
				runtime.Gosched()
			}
		}
		s.help.Store(helpOver)
	}
	s.f.helpers.Add(-1)
	s.release()
}

// leave returns when the second goroutine uses nothing of the first's any more.
func (s *sharedList) leave() {
	s.stop.Store(true)
	if s.help.Load() != helpNone {
		s.f.decisions.parallelListing.Note(s.helped)
	}
	if !s.help.CompareAndSwap(helpAsked, helpOver) {
		pause(func() bool { return s.help.Load() != helpRuns })
	}
}

// pause returns when over reports true: soon, if the thread of the other goroutine is run.
func pause(over func() bool) {
	for turns := 0; !over(); turns++ {
		if turns < waitTurns {
			runtime.Gosched()
		} else {
			time.Sleep(waitSleep)
		}
	}
}

// await returns when part k has been described by the second; the first describes others meanwhile.
func (s *sharedList) await(k int) {
	pause(func() bool { return s.done[k].Load() || s.describeNext() && s.done[k].Load() })
}

// describeNext describes the first part after the one that is emitted which nobody has claimed, and
// reports whether there was one. A part's room is free from the moment in which the part that had
// it has been emitted.
func (s *sharedList) describeNext() bool {
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

func (s *sharedList) describe(k int) {
	var raw rawDirent
	i := 0
	for b := raw.next(s.part(k)); b != nil; b = raw.next(b) {
		e := &s.ahead[k%partsAhead][i]
		e.ok = raw.ino != 0 && s.f.dirent(s.d, s.fd, &raw, true, s.now, &e.de)
		e.de.Name = nil
		i++
	}
}

// release lets go of it. The last one puts it back.
func (s *sharedList) release() {
	if s.users.Add(-1) == 0 {
		s.f, s.d, s.b = nil, nil, nil
		sharedLists.Put(s)
	}
}
