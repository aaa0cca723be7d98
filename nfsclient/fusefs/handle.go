// File handles of this machine (name_to_handle_at(2)), which backup programs and a server that
// exports the mount again keep.
//
// The kernel's handle has room for a node's id and a generation, 12 bytes, and the server's has up
// to 64. So the ids of nodes that the kernel has forgotten stay with the server's handles, for as
// many nodes as the table keeps. An id that is given up is not used again, and the generation is of
// one mount: a handle that is too old, or of an earlier mount, is ESTALE and never another object.

package fusefs

import (
	"math/rand/v2"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// past is the nodes that the kernel has forgotten. The table's lock guards it.
type past struct {
	generation uint32 // set once, of all nodes but the root

	byID  map[uint64]pastNode
	byFH  map[nfs3.FH]uint64
	ids   []uint64 // in the order in which they were added; some are back, or were added again
	added uint64   // ids so far
}

type pastNode struct {
	fh nfs3.FH
	at uint64 // added when it came
}

func newPast() past {
	return past{generation: rand.Uint32(), byID: make(map[uint64]pastNode), byFH: make(map[nfs3.FH]uint64)}
}

// add remembers a node, and gives up the oldest ones beyond most.
func (p *past) add(id uint64, fh nfs3.FH, most int) {
	p.added++
	p.byID[id], p.byFH[fh] = pastNode{fh, p.added}, id
	p.ids = append(p.ids, id)
	for len(p.ids) > most {
		oldest := p.ids[0]
		if p.byID[oldest].at == p.added-uint64(len(p.ids))+1 {
			p.remove(oldest)
		}
		p.ids = p.ids[1:]
	}
}

// take returns the id that the node of a handle had, and forgets it.
func (p *past) take(fh nfs3.FH) (id uint64, ok bool) {
	if id, ok = p.byFH[fh]; ok {
		p.remove(id)
	}
	return id, ok
}

func (p *past) remove(id uint64) {
	delete(p.byFH, p.byID[id].fh)
	delete(p.byID, id)
}

// recall returns the node that has or had the id, with one more lookup counted.
func (t *table) recall(id uint64) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.byID[id]; n != nil {
		n.lookups++
		return n, nil
	}
	if p, ok := t.past.byID[id]; ok {
		return t.hold(p.fh), nil
	}
	return nil, syscall.ESTALE
}

// generation is what the kernel's handle of n has beside the id.
func (t *table) generation(n *node) uint64 {
	if n.id == rootID {
		return 0 // the kernel has it so
	}
	return uint64(t.past.generation)
}

// lookupByHandle answers what the kernel asks for a handle: the node itself ("."), or the directory
// that it is in (".."). The server is asked in any case, since it may know the node no more.
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

// parent returns the directory that a directory is in, with one more lookup counted. It may be
// outside of the mount, if the directory has been moved.
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
	return t.hold(found.FH), nil
}
