// Package pathtree gives the objects in a tree of paths identities that survive renames. A table
// maps each identity to the present path, in memory and, with a state directory, in a log.
package pathtree

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
)

// An ID is one object's identity. A table never gives it to another object.
type ID [16]byte

// Fileid returns a number for the object, which is not 0.
func (id ID) Fileid() uint64 { return max(binary.BigEndian.Uint64(id[:])&^(1<<63), 1) }

// Errors of a Table.
var (
	// ErrUnknown: the ID names no object, or one that was removed.
	ErrUnknown = errors.New("unknown identity")
	// ErrFull: the table has Options.Max objects.
	ErrFull = errors.New("too many objects are known")
)

// Options configures a Table.
type Options struct {
	// Dir is the state directory, which must exist. "": identities end with the Table.
	Dir string
	// Seed, if not nil, derives all identities from paths alone. Then nothing may be added, moved
	// or removed, and the Table forgets objects beyond Max: Rediscover finds these again.
	Seed []byte
	// Max is the largest object count; 0: 4,194,304. An object takes about 250 bytes.
	Max int
}

// A Table maps identities to paths. Its methods may be called concurrently.
type Table struct {
	// Set once.
	secret []byte
	fixed  bool // identities depend only on paths
	max    int
	root   *node

	mu    sync.Mutex // guards all nodes, and the rest
	nodes map[ID]*node
	log   *journal // nil: no state directory
}

// A node is a known object.
type node struct {
	id     ID
	parent *node // of the root: nil
	name   string
	names  map[string]*node // the known objects in it
	// era is part of all identities that this directory gives later. It increases when an
	// object leaves, so a later object with the same name gets another identity.
	era  uint32
	kept Kept
}

// New returns the Table in a state directory, or an empty one.
func New(o Options) (*Table, error) {
	t := &Table{secret: o.Seed, fixed: o.Seed != nil, max: o.Max, nodes: make(map[ID]*node)}
	if t.max <= 0 {
		t.max = 1 << 22
	}
	if !t.fixed {
		t.secret = make([]byte, secretSize)
		rand.Read(t.secret)
	}
	if o.Dir != "" && !t.fixed {
		if err := t.open(o.Dir); err != nil {
			return nil, err
		}
		return t, nil
	}
	t.begin()
	return t, nil
}

// begin makes the root, after the secret is known.
func (t *Table) begin() {
	t.root = &node{id: t.derive(ID{}, "", 0)}
	t.nodes[t.root.id] = t.root
}

// derive returns the identity for an object found as name in dir during an era.
func (t *Table) derive(dir ID, name string, era uint32) (id ID) {
	b := make([]byte, 0, 128)
	b = append(b, t.secret...)
	b = append(b, dir[:]...)
	b = binary.BigEndian.AppendUint32(b, era)
	b = append(b, name...)
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	return id
}

// Mark returns a number for a name, for positions in a listing: the same in every process that has
// the same state directory or seed. It is below 1<<63.
func (t *Table) Mark(name string) uint64 {
	b := make([]byte, 0, 128)
	b = append(b, t.secret...)
	b = append(b, name...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:]) >> 1
}

// Root returns the top directory's identity.
func (t *Table) Root() ID { return t.root.id }

// Len counts the known objects.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.nodes)
}

// Path returns an object's path from the root, without a slash at either end; the root's is "".
func (t *Table) Path(id ID) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n == nil {
		return "", ErrUnknown
	}
	return n.path(), nil
}

func (n *node) path() string {
	size := 0
	for m := n; m.parent != nil; m = m.parent {
		size += len(m.name) + 1
	}
	if size == 0 {
		return ""
	}
	b := make([]byte, size-1)
	end := len(b)
	for m := n; m.parent != nil; m = m.parent {
		end -= copy(b[end-len(m.name):], m.name)
		if end > 0 {
			end--
			b[end] = '/'
		}
	}
	return string(b)
}

// Parent returns the directory that has an object; the root is in itself.
func (t *Table) Parent(id ID) (ID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	switch {
	case n == nil:
		return ID{}, ErrUnknown
	case n.parent == nil:
		return id, nil
	}
	return n.parent.id, nil
}

// Inside reports whether dir is id or below it.
func (t *Table) Inside(dir, id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, top := t.nodes[dir], t.nodes[id]
	return n != nil && top != nil && n.inside(top)
}

func (n *node) inside(top *node) bool {
	for ; n != nil; n = n.parent {
		if n == top {
			return true
		}
	}
	return false
}

// Child returns the identity that name in dir has, or would get from Find. It makes nothing known.
func (t *Table) Child(dir ID, name string) (id ID, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.nodes[dir]
	if d == nil {
		return t.derive(dir, name, 0), false
	}
	if n := d.names[name]; n != nil {
		return n.id, true
	}
	return t.derive(dir, name, d.era), false
}
