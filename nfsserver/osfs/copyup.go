// Overlays without kernel handles, where a file changes its birth time.

package osfs

import "sync"

// On an overlay the first change of a lower layer's file copies the file up. The inode number
// stays, if the layers are on one file system, but the birth time becomes the copy's. An inodeRef
// has the birth time to exclude a later file with the same number.
//
// btimes maps an inode to the birth time in its Ref and the present birth time. A new birth time is
// a copy's if a descriptor opened before the change has it too. Otherwise the file is another.
type btimes struct {
	mu    sync.Mutex
	known map[inodeKey]btime
}

type btime struct{ made, now uint64 }

func (b *btimes) get(k inodeKey) (btime, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.known[k]
	return e, ok
}

func (b *btimes) set(k inodeKey, e btime) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || len(b.known) >= maxBtimes {
		b.known = make(map[inodeKey]btime)
	}
	b.known[k] = e
}

// madeAt returns the birth time in the Ref of inode k; fd is open on k.
func (f *FS) madeAt(fd int, k inodeKey) (uint64, error) {
	now, _, err := birthTime(fd)
	if err != nil {
		return 0, err
	}
	e, ok := f.btimes.get(k)
	if ok && e.now == now {
		return e.made, nil
	}
	if ok && f.copiedUp(k, e, now) {
		return e.made, nil
	}
	f.btimes.set(k, btime{now, now})
	return now, nil
}

// copiedUp reports whether an open node of inode k has the birth time now.
func (f *FS) copiedUp(k inodeKey, e btime, now uint64) bool {
	r := inodeRefOf(k, e.made)
	n := f.cache.get(&r)
	if n == nil {
		return false
	}
	defer f.cache.release(n)
	if at, _, err := birthTime(n.fd()); err != nil || at != now {
		return false
	}
	f.btimes.set(k, btime{e.made, now})
	return true
}

// seeBirth records an open node's birth time, which a copy-up may just have changed.
func (f *FS) seeBirth(n *node) {
	now, _, err := birthTime(n.fd())
	if err != nil {
		return
	}
	if e, ok := f.btimes.get(n.key); ok && e.now != now && inodeRefOf(n.key, e.made) == n.ref {
		f.btimes.set(n.key, btime{e.made, now})
	}
}
