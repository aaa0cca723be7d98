// Attributes that the tree of paths does not keep itself.

package pathtree

// Attributes in Kept.Mask.
const (
	KeptMode = 1 << iota
	KeptOwner
	KeptAtime
	KeptMtime
)

// Kept has an object's attributes beside the tree. Times are nanoseconds of the Unix epoch.
type Kept struct {
	Mask           uint8 // which of the next fields are set
	Mode, UID, GID uint32
	Atime, Mtime   int64
	// TreeMtime is the tree's mtime when Mtime was set. Mtime holds until the tree's changes.
	TreeMtime int64

	// In memory only. MtimeMin and CtimeMin are the last changes by this process. Type is the
	// object's type when it was found, in the caller's numbers; 0: unknown.
	MtimeMin, CtimeMin int64
	Type               uint32
}

// durable returns the part that the log has.
func (k Kept) durable() Kept {
	k.MtimeMin, k.CtimeMin, k.Type = 0, 0, 0
	return k
}

// Kept returns an object's attributes, as far as the Table has them.
func (t *Table) Kept(id ID) Kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.nodes[id]; n != nil {
		return n.kept
	}
	return Kept{}
}

// Keep changes an object's attributes by f, which must not call the Table.
func (t *Table) Keep(id ID, f func(*Kept)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n == nil {
		return
	}
	before := n.kept.durable()
	f(&n.kept)
	if n.kept.durable() != before {
		t.record(appendKept(nil, n))
	}
}
