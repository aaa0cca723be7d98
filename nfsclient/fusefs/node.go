// Nodes: the kernel's objects, one for each file handle.

package fusefs

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A node is an object in the kernel's caches, or an open file. Hard links share a node because they
// have the same handle.
//
// Lock order: table.mu, then node.mu. Both are free during calls to the server or to the kernel.
type node struct {
	// set once
	id uint64
	fh nfs3.FH

	// guarded by table.mu
	lookups  uint64           // the kernel's count; FORGET decrements it
	opens    int              // handles on the node, and opens in flight (see openremove.go)
	removals int              // removals in flight
	removed  chan struct{}    // closed when the last removal ends; nil: no removal in flight
	dirNames []dirName        // known names of the node
	children map[string]child // of a directory: cached names
	absent   int              // children known to be absent
	listed   *listedNames     // of a directory: nil if only children are cached
	forgot   uint64           // of a directory: how often the kernel forgot a child

	mu sync.Mutex // guards all below
	attrs
	access      []callerRights // cached rights of callers
	acl         *knownACL      // cached ACLs; nil: not known
	aclSet      uint64         // the moment when we set an ACL last
	names       uint64         // our changes to a directory's names
	fetched     time.Time      // when the listing in the kernel's cache was read
	pages       uint64         // the content number of the kernel's pages or listing
	shown       uint64         // of a file: the kernel's size is at least this; see size.go
	cuts        uint64         // counts events possibly shrinking the kernel's size
	seen        bool           // of a file: the kernel has a size
	shownAs     ownership      // the ownership in the kernel's attributes, if it has any
	reads       readGroups     // of a file
	making      bool           // of a file: its creating open is not closed yet
	deferredErr error          // of a deferred SETATTR, not reported yet

	appends chan struct{} // made together with data; holds a token during an append

	deferred atomic.Pointer[deferredSetattr] // written under mu; nil: no deferred SETATTR

	data          atomic.Pointer[datapath.File] // set once, at the first open
	paged         atomic.Bool                   // the kernel has had pages of the file
	silly         atomic.Bool                   // the only name is hidden; set under table.mu
	hiddenFiles   atomic.Int64                  // of a directory: files with hidden names in it
	hiddenRemoved atomic.Uint64                 // of a directory: counts removed hidden names
	gone          atomic.Bool                   // we have removed the object's last name

	polling atomic.Bool // a poll by pollLoop is in flight

	lookedUp            atomic.Int32  // of a directory: LOOKUPs since lookedUp last listed a page
	searchers           atomic.Uint64 // of a directory: counts our search-right changes
	searchersNotified   atomic.Uint64 // value of searchers at the last notice to forget the names
	searchersNotifiedAt atomic.Int64  // moment of that notice, in nanoseconds after clockOrigin
}

// A dirName is a name in a directory.
type dirName struct {
	dir  *node
	name string
}

// A child is the last known state of a name.
type child struct {
	n       *node     // nil: the name is absent
	content uint64    // the directory's content number when the state was learned
	shown   time.Time // the kernel's entry is valid until this time, unless forgotten
}

// maxAbsent bounds the absent names of a directory.
const maxAbsent = 4096

// rootID is FUSE's fixed number for the root.
const rootID = 1

// A table has all nodes.
type table struct {
	mu        sync.Mutex // guards all below, and the marked fields of nodes
	byID      map[uint64]*node
	byFH      map[nfs3.FH]*node
	last      uint64 // ids are never reused for another handle
	root      *node
	forgotten forgottenNodes // see localhandles.go

	most    int    // bound of nodes: with more, full is called
	full    func() // set once: called above most; does not block
	entered int    // new nodes since the last call to full

	forgetAbsent func(dir *node, names []string) // set once: forgets kernel names, does not block

	uses map[dirName]*nameUse // names with calls in flight

	knownDirs  map[*node]bool // directories with known names
	knownNames int            // total names in knownDirs
}

func newTable(root nfs3.FH) *table {
	n := &node{id: rootID, fh: root, lookups: 1}
	return &table{byID: map[uint64]*node{rootID: n}, byFH: map[nfs3.FH]*node{root: n}, last: rootID, root: n, most: math.MaxInt, forgetAbsent: func(*node, []string) {}, forgotten: newForgottenNodes(), uses: make(map[dirName]*nameUse), knownDirs: make(map[*node]bool)}
}

// get returns the node with this id, or nil.
func (t *table) get(id uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// find returns the node of a handle, or nil.
func (t *table) find(fh nfs3.FH) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byFH[fh]
}

// enter returns the node of a handle with one more lookup counted, as each entry for the kernel
// requires. It binds the node to the name in dir; content is the directory's number when the call
// was sent.
func (t *table) enter(fh nfs3.FH, dir *node, name string, content uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.enterLocked(fh, dir, name, content)
}

// enterLocked is enter for callers that hold t.mu.
func (t *table) enterLocked(fh nfs3.FH, dir *node, name string, content uint64) *node {
	n := t.refNode(fh)
	t.bind(dir, name, n, content)
	return n
}

// refNode returns the node of a handle with one more lookup counted. The caller holds t.mu.
func (t *table) refNode(fh nfs3.FH) *node {
	n := t.byFH[fh]
	if n == nil {
		id, ok := t.forgotten.take(fh)
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

// forget subtracts count lookups.
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

// drop removes a node without lookups, opens and removals. The caller holds t.mu.
func (t *table) drop(n *node) {
	if n.lookups > 0 || n.opens > 0 || n.removals > 0 || n.id == rootID {
		return
	}
	for len(n.dirNames) > 0 {
		p := n.dirNames[0]
		t.unbind(p.dir, p.name)
		t.exists(p.dir, p.name)
		p.dir.forgot++
	}
	for name := range n.children {
		t.unbind(n, name)
	}
	t.dropListing(n)
	delete(t.byID, n.id)
	if t.byFH[n.fh] == n {
		delete(t.byFH, n.fh)
		if !n.gone.Load() {
			t.forgotten.add(n.id, n.fh, t.most)
		}
	}
	if d := n.data.Swap(nil); d != nil {
		d.Release()
	}
}

// disown detaches the node of a stale handle. New lookups of its names get the server's present
// object (ESTALE makes the kernel walk again).
func (t *table) disown(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n == t.root {
		return
	}
	if t.byFH[n.fh] == n {
		delete(t.byFH, n.fh)
	}
	t.dropListing(n)
	t.voidPath(n)
	for len(n.dirNames) > 0 {
		t.unbind(n.dirNames[0].dir, n.dirNames[0].name)
	}
}

// isOpen reports whether n has open handles.
func (t *table) isOpen(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.opens > 0
}

// size returns the number of nodes.
func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// bound returns the number of nodes above which the mount asks the kernel to forget some.
func (t *table) bound() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.most
}
