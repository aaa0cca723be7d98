// Overlays without handles of the kernel: files that change their time of birth.

package osfs

import "sync"

// On an overlay a file of a lower layer is copied up when it is first changed:
// its inode number stays (layers on one file system), but its time of birth, by
// which an inodeRef is told from that of a later file with the same number, is
// from then on that of the copy. births has, for each inode, the time that its
// Ref was made of and the one that it has now. A new time is taken for a copy's
// if a descriptor that was open before shows it, too; else the file is another.
type births struct {
	mu    sync.Mutex
	known map[inodeKey]birth
}

type birth struct{ made, now uint64 }

func (b *births) get(k inodeKey) (birth, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.known[k]
	return e, ok
}

func (b *births) set(k inodeKey, e birth) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || len(b.known) >= maxBirths {
		b.known = make(map[inodeKey]birth)
	}
	b.known[k] = e
}

// madeAt is the time of birth in the Ref of inode k, which fd is open on.
func (f *FS) madeAt(fd int, k inodeKey) (uint64, error) {
	now, _, err := birthTime(fd)
	if err != nil {
		return 0, err
	}
	e, ok := f.births.get(k)
	if ok && e.now == now {
		return e.made, nil
	}
	if ok && f.copiedUp(k, e, now) {
		return e.made, nil
	}
	f.births.set(k, birth{now, now})
	return now, nil
}

// copiedUp reports whether the node of inode k, if it is open, has the time of birth now.
func (f *FS) copiedUp(k inodeKey, e birth, now uint64) bool {
	r := inodeRefOf(k, e.made)
	n := f.cache.get(&r)
	if n == nil {
		return false
	}
	defer f.cache.release(n)
	if at, _, err := birthTime(n.fd()); err != nil || at != now {
		return false
	}
	f.births.set(k, birth{e.made, now})
	return true
}

// seeBirth takes note of the time of birth of an open node, which may just have been copied up.
func (f *FS) seeBirth(n *node) {
	now, _, err := birthTime(n.fd())
	if err != nil {
		return
	}
	if e, ok := f.births.get(n.key); ok && e.now != now && inodeRefOf(n.key, e.made) == n.ref {
		f.births.set(n.key, birth{e.made, now})
	}
}
