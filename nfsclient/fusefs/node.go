// Nodes: the objects that the kernel knows, one for each file handle.

package fusefs

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A node is an object that the kernel holds, or that is open. Hard links are one node:
// the server gives them one handle.
//
// Lock order: table.mu, then node.mu. Neither is held during a call to the server or to
// the kernel.
type node struct {
	// set once
	id uint64
	fh nfs3.FH

	// guarded by table.mu
	lookups  uint64           // the kernel's count, which FORGET takes back
	opens    int              // handles on it, and opens in flight (see openremove.go)
	removals int              // in flight
	removed  chan struct{}    // closed when there is no removal any more; nil: there is none
	places   []place          // where it has names that we know of
	children map[string]child // of a directory: what its names are
	absent   int              // children that are known not to exist
	known    *known           // of a directory: nil where only children are known
	forgot   uint64           // of a directory: how often the kernel forgot what a name leads to

	mu sync.Mutex // guards all below
	attrs
	access  []allowed // what callers may do
	acl     *knownACL // nil: not known
	aclSet  uint64    // the moment when we set an ACL last
	names   uint64    // own changes to the names of a directory
	fetched time.Time // when the listing that the kernel caches was read
	pages   uint64    // the content that the kernel's pages, or its listing, are of
	shown   uint64    // of a file: its size is at least this to the kernel; see size.go
	cuts    uint64    // counts what may have made the kernel's size smaller
	seen    bool      // of a file: the kernel was given a size
	shownAs ownership // the kernel has these, if it was given attributes
	reading reading   // of a file
	making  bool      // of a file: made by an open that nobody has closed yet (see deferredsetattr.go)
	heldErr error     // of what was held, told to nobody yet

	appends chan struct{} // set with data; full during an append

	held atomic.Pointer[held] // written under mu; nil: nothing

	data  atomic.Pointer[datapath.File] // set once, at the first open
	paged atomic.Bool                   // the kernel has had pages of it
	silly atomic.Bool                   // its only name is a hidden one; set under table.mu
	hides atomic.Int64                  // of a directory: files that got hidden names in it, and still have them
	unhid atomic.Uint64                 // of a directory: how often such a name went
	gone  atomic.Bool                   // we have removed its last name

	looked atomic.Bool // a look of watchLoop is under way

	lookedUp  atomic.Int32  // of a directory: LOOKUPs that found something, since it was listed for them
	searchers atomic.Uint64 // of a directory: how often we have changed who may search it
	told      atomic.Uint64 // searchers when the kernel was last told to forget its names
	toldAt    atomic.Int64  // when that was, in nanoseconds after epoch
}

// A place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// A child is what a name was when it was asked for last.
type child struct {
	n       *node     // nil: nothing has the name
	content uint64    // of the directory, at that time
	shown   time.Time // until then the kernel believes the name, unless it has forgotten it
}

// Bounds of the names that a directory keeps beside those that the kernel holds.
const maxAbsent = 4096

const rootID = 1

// A table is all nodes.
type table struct {
	mu   sync.Mutex // guards all, and what it guards of nodes
	byID map[uint64]*node
	byFH map[nfs3.FH]*node
	last uint64 // an id is not used for another handle
	root *node
	past past // see handle.go

	most    int    // with more nodes the kernel is asked to forget some
	full    func() // set once: told of that; it does not wait
	entered int    // nodes since full was called last

	forgetAbsent func(dir *node, names []string) // set once: has the kernel forget names; it does not wait

	uses map[place]*nameUse // names that calls in flight change or look up

	knownDirs  map[*node]bool // those with names that are known
	knownNames int            // how many these are
}

func newTable(root nfs3.FH) *table {
	n := &node{id: rootID, fh: root, lookups: 1}
	return &table{byID: map[uint64]*node{rootID: n}, byFH: map[nfs3.FH]*node{root: n}, last: rootID, root: n, most: math.MaxInt, forgetAbsent: func(*node, []string) {}, past: newPast(), uses: make(map[place]*nameUse), knownDirs: make(map[*node]bool)}
}

// get is the node of an id that the kernel has named.
func (t *table) get(id uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// find is the node of a handle, nil if there is none.
func (t *table) find(fh nfs3.FH) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byFH[fh]
}

// enter returns the node of a handle with one more lookup counted, as is due for each entry
// that the kernel is given. It has the name in dir from now on; content is that of dir
// when the server was asked.
func (t *table) enter(fh nfs3.FH, dir *node, name string, content uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.enterLocked(fh, dir, name, content)
}

// enterLocked is enter for callers that hold mu.
func (t *table) enterLocked(fh nfs3.FH, dir *node, name string, content uint64) *node {
	n := t.hold(fh)
	t.bind(dir, name, n, content)
	return n
}

// hold returns the node of a handle with one more lookup counted. The caller holds mu.
func (t *table) hold(fh nfs3.FH) *node {
	n := t.byFH[fh]
	if n == nil {
		id, ok := t.past.take(fh)
		if !ok {
			t.last++
			id = t.last
		}
		n = &node{id: id, fh: fh}
		t.byID[n.id], t.byFH[fh] = n, n
		if t.entered++; len(t.byID) > t.most && t.entered > t.most/8 {
			t.entered = 0
			t.full()
		}
	}
	n.lookups++
	return n
}

// forget takes count lookups back.
func (t *table) forget(id, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || id == rootID {
		return
	}
	n.lookups -= min(count, n.lookups)
	t.drop(n)
}

// drop lets a node go that nobody holds. The caller holds mu.
func (t *table) drop(n *node) {
	if n.lookups > 0 || n.opens > 0 || n.removals > 0 || n.id == rootID {
		return
	}
	for len(n.places) > 0 {
		p := n.places[0]
		t.unbind(p.dir, p.name)
		t.exists(p.dir, p.name)
		p.dir.forgot++
	}
	for name := range n.children {
		t.unbind(n, name)
	}
	t.doubt(n)
	delete(t.byID, n.id)
	if t.byFH[n.fh] == n {
		delete(t.byFH, n.fh)
		if !n.gone.Load() {
			t.past.add(n.id, n.fh, t.most)
		}
	}
	if d := n.data.Swap(nil); d != nil {
		d.Release()
	}
}

// disown has a stale handle's node found no more: whoever asks for its names again gets
// what the server has there now (ESTALE).
func (t *table) disown(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n == t.root {
		return
	}
	if t.byFH[n.fh] == n {
		delete(t.byFH, n.fh)
	}
	t.doubt(n)
	t.doubtPath(n)
	for len(n.places) > 0 {
		t.unbind(n.places[0].dir, n.places[0].name)
	}
}

// isOpen reports whether there are handles on n.
func (t *table) isOpen(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.opens > 0
}

// size is the number of nodes.
func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// bound is the number of nodes from which on the kernel is asked to forget some.
func (t *table) bound() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.most
}
