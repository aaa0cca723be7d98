// Listings: a directory's names in cookie order.

package juicefs

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
)

// A cookie consists of 59 bits of the name's hash, keyed by the volume, and 3 bits that number
// names with the same hash. So it depends only on the name: a listing continues after a restart or
// on another server, and names made or removed meanwhile move no other name. In a directory of a
// million names two have the same hash with a probability of one in a million. One of them is then
// skipped if the other is removed just between two pages. Cookies stay below 2^62, and those below
// 8 are free for "." and "..".
const (
	rankBits      = 3
	hashBits      = 59
	cookieDot     = 1
	cookieDotDot  = 2
	cookieVersion = 1 // version of this scheme: the cookie verifier
)

// hash returns a name's hash, never 0.
func (f *FS) hash(name []byte) uint64 {
	var b [16 + nameMax]byte
	copy(b[:], f.hashKey[:])
	sum := sha256.Sum256(b[:16+copy(b[16:], name)])
	return max(binary.BigEndian.Uint64(sum[:])>>(64-hashBits), 1)
}

// A listing holds a directory's names at one moment, sorted by cookie. It does not change.
type listing struct {
	stamp   stamp // of the directory, just before
	made    time.Time
	took    time.Duration
	names   []byte
	entries []entry
}

type entry struct {
	cookie uint64
	ino    meta.Ino
	at     uint32 // offset in names
	size   uint8
}

// marked reports whether each later change of the names changes the stamp.
func (l *listing) marked() bool {
	return l.made.Sub(time.Unix(l.stamp.mtime.Sec, int64(l.stamp.mtime.Nsec))) >= unmarked
}

func (l *listing) name(e *entry) []byte { return l.names[e.at:][:e.size] }

// after returns the entries after a cookie.
func (l *listing) after(cookie uint64) []entry {
	i, found := slices.BinarySearchFunc(l.entries, cookie, func(e entry, c uint64) int { return cmp.Compare(e.cookie, c) })
	if found {
		i++
	}
	return l.entries[i:]
}

// read makes a listing. JuiceFS always reads a whole directory.
func (f *FS) read(d *inode) (*listing, error) {
	start := time.Now()
	var all []*meta.Entry
	if no := f.m.Readdir(system, d.ino, 0, &all); no != 0 {
		return nil, failedOn(no)
	}
	l := &listing{stamp: d.stamp, made: start, entries: make([]entry, 0, len(all))}
	for _, e := range all {
		if name := string(e.Name); name == "." || name == ".." {
			continue
		}
		l.entries = append(l.entries, entry{cookie: f.hash(e.Name) << rankBits, ino: e.Inode, at: uint32(len(l.names)), size: uint8(len(e.Name))})
		l.names = append(l.names, e.Name...)
	}
	l.sort()
	l.took = time.Since(start)
	return l, nil
}

// sort orders the entries by hash, then by name, and numbers entries of equal hash. It removes
// duplicates: Redis returns a name twice if its tables grow meanwhile.
func (l *listing) sort() {
	slices.SortFunc(l.entries, func(a, b entry) int {
		if c := cmp.Compare(a.cookie, b.cookie); c != 0 {
			return c
		}
		return slices.Compare(l.name(&a), l.name(&b))
	})
	l.entries = slices.CompactFunc(l.entries, func(a, b entry) bool {
		return a.cookie == b.cookie && slices.Equal(l.name(&a), l.name(&b))
	})
	for i := 1; i < len(l.entries); i++ {
		if e, before := &l.entries[i], l.entries[i-1].cookie; e.cookie == before&^(1<<rankBits-1) {
			e.cookie = min(before+1, e.cookie|(1<<rankBits-1))
		}
	}
}

const (
	// cachedNames bounds the names in kept listings, some 60 bytes each.
	cachedNames = 4 << 20
	// A continued listing uses names read before for goOnFor, or for goOnTimes the time it took to
	// read them, even after changes. Reading the directory again for each page of an `rm -r` of a
	// million names would take forever.
	goOnFor, goOnTimes = 2 * time.Second, 20
	// JuiceFS's mounts leave a directory's times unchanged when its names change, until this long
	// after its modification time (skip-dir-mtime): a tenth of a second for each attempt of the
	// transaction. With a time in the future they never change it.
	unmarked = 10 * time.Second
)

// listings are the most recently used listings.
type listings struct {
	mu    sync.Mutex // guards the rest
	of    map[meta.Ino]*cachedListing
	order list.List // inode numbers, most recently used first
	names int

	page atomic.Int64 // number of names with attributes in the last full reply
}

// A cachedListing is a listing, and the lock for making it.
type cachedListing struct {
	making sync.Mutex    // held while reading the directory; taken without listings.mu
	l      *listing      // guarded by listings.mu
	at     *list.Element // in listings.order, guarded by listings.mu
}

// list returns the names of d for a page that begins after a cookie. A new listing (cookie 0) has
// all names present now; a continued one has those present when it began.
func (f *FS) list(d *inode, cookie uint64) (*listing, error) {
	called := time.Now()
	k := f.listings.cached(d.ino)
	if l := f.listings.usable(k, d, cookie, called); l != nil {
		return l, nil
	}
	k.making.Lock()
	defer k.making.Unlock()
	if l := f.listings.usable(k, d, cookie, called); l != nil {
		return l, nil // another call has just read it
	}
	l, err := f.read(d)
	if err == nil {
		f.listings.put(d.ino, k, l)
	}
	return l, err
}

func (s *listings) cached(ino meta.Ino) *cachedListing {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.of[ino]
	if k == nil {
		k = &cachedListing{at: s.order.PushFront(ino)}
		if s.of == nil {
			s.of = map[meta.Ino]*cachedListing{}
		}
		s.of[ino] = k
		s.names += listingCost
	}
	s.order.MoveToFront(k.at)
	return k
}

// usable returns the kept listing if it fits a page requested at the time called.
func (s *listings) usable(k *cachedListing, d *inode, cookie uint64, called time.Time) *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := k.l
	switch {
	case l == nil:
		return nil
	case l.stamp == d.stamp && l.marked(), !l.made.Before(called), cookie != 0 && time.Since(l.made) < max(goOnFor, goOnTimes*l.took):
		return l
	}
	return nil
}

// put keeps a listing, and forgets the least recently used ones.
func (s *listings) put(ino meta.Ino, k *cachedListing, l *listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[ino] != k {
		return // forgotten meanwhile
	}
	s.names -= k.size()
	k.l = l
	s.names += k.size()
	s.order.MoveToFront(k.at)
	for s.names > cachedNames && len(s.of) > 1 {
		oldest := s.order.Remove(s.order.Back()).(meta.Ino)
		s.names -= s.of[oldest].size()
		delete(s.of, oldest)
	}
}

// listingCost is the cost of a kept directory beside its names, counted in names.
const listingCost = 16

func (k *cachedListing) size() int {
	if k.l == nil {
		return listingCost
	}
	return listingCost + len(k.l.entries)
}
