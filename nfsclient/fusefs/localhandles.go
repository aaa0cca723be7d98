// Local file handles (name_to_handle_at(2)), as backup programs and re-exporting servers keep them.
//
// The kernel's handle has 12 bytes, for a node id and a generation; a server handle has up to 64.
// So the table keeps the ids of forgotten nodes with their server handles, up to its bound of
// nodes. Dropped ids are never reused, and each mount has a random generation. So a handle that is
// too old, or from an earlier mount, is ESTALE and never another object.

package fusefs

import (
	"math/rand/v2"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// forgottenNodes has the nodes forgotten by the kernel. The table's lock guards it.
type forgottenNodes struct {
	generation uint32 // set once; for all nodes except the root

	byID  map[uint64]forgottenNode
	byFH  map[nfs3.FH]uint64
	ids   []uint64 // in the order of add; may include ids taken or added again
	added uint64   // number of adds so far
}

// A forgottenNode is a forgotten node's handle.
type forgottenNode struct {
	fh nfs3.FH
	at uint64 // value of added at this node's add
}

func newForgottenNodes() forgottenNodes {
	return forgottenNodes{generation: rand.Uint32(), byID: make(map[uint64]forgottenNode), byFH: make(map[nfs3.FH]uint64)}
}

// add keeps a node's id, and drops the oldest ones beyond most.
func (p *forgottenNodes) add(id uint64, fh nfs3.FH, most int) {
	p.added++
	p.byID[id], p.byFH[fh] = forgottenNode{fh, p.added}, id
	p.ids = append(p.ids, id)
	for len(p.ids) > most {
		oldest := p.ids[0]
		if p.byID[oldest].at == p.added-uint64(len(p.ids))+1 {
			p.remove(oldest)
		}
		p.ids = p.ids[1:]
	}
}

// take removes a handle's entry and returns its id.
func (p *forgottenNodes) take(fh nfs3.FH) (id uint64, ok bool) {
	if id, ok = p.byFH[fh]; ok {
		p.remove(id)
	}
	return id, ok
}

// remove drops an id; its place in ids stays until add reaches it.
func (p *forgottenNodes) remove(id uint64) {
	delete(p.byFH, p.byID[id].fh)
	delete(p.byID, id)
}

// recall returns the present or past node with this id, with one more lookup counted.
func (t *table) recall(id uint64) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.byID[id]; n != nil {
		n.lookups++
		return n, nil
	}
	if p, ok := t.forgotten.byID[id]; ok {
		return t.refNode(p.fh), nil
	}
	return nil, syscall.ESTALE
}

// generation returns the part of the kernel's handle for n besides the id.
func (t *table) generation(n *node) uint64 {
	if n.id == rootID {
		return 0 // as the kernel expects
	}
	return uint64(t.forgotten.generation)
}

// lookupByHandle handles the kernel's lookups for a handle: the node itself (".") or its parent
// directory (".."). It always sends a call, because the server may no longer know the node.
func (r *request) lookupByHandle(id uint64, name string, out *fuse.EntryOut) fuse.Status {
	f := r.fs
	find := r.parent
	if name == "." {
		find = f.table.recall
	}
	n, err := find(id)
	if err != nil {
		return f.status(err)
	}
	if err = r.getattr(n); err == nil {
		err = r.mayUse(n)
	}
	if err != nil {
		f.table.forget(n.id, 1)
		return f.status(err)
	}
	f.fillNode(out, n)
	return fuse.OK
}

// parent returns the parent of a directory with one more lookup counted. The parent may be outside
// the mount if the directory has been moved.
func (r *request) parent(id uint64) (*node, error) {
	t := r.fs.table
	dir := t.get(id)
	if dir == nil || dir == t.root {
		return nil, syscall.ESTALE
	}
	found, err := r.who.client.Lookup(r, dir.fh, "..")
	if err != nil {
		return nil, r.fs.stale(dir, err)
	}
	if found.FH == dir.fh {
		return nil, syscall.ESTALE // the root of the export
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refNode(found.FH), nil
}
