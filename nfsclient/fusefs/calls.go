// Calls to the server, and what each reply tells of the objects in it.

package fusefs

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// do does one procedure for the caller of r.
func (r *request) do(proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, status *nfs3.Status) error {
	return r.who.client.Do(r, proc, args, res, status, nil, 0)
}

// learn enters what a reply says of n; s is when the call was sent.
func (f *fileSystem) learn(n *node, s stamp, attr *nfs3.Fattr) {
	f.report(n, report{tick: s.tick, sent: s.at, attr: attr})
}

// learnPost is learn for attributes that may be missing.
func (f *fileSystem) learnPost(n *node, s stamp, post *nfs3.PostOpAttr) {
	if post.Present {
		f.learn(n, s, &post.Attr)
	}
}

// learnCtime enters what the reply of an operation that changes the ctime of n, and never its
// content, says of it: a new size or mtime is of another client. Without attributes what was known
// is out of date.
func (f *fileSystem) learnCtime(n *node, s stamp, post *nfs3.PostOpAttr) {
	if !post.Present {
		f.expire(n)
	}
	f.learnPost(n, s, post)
}

// learnWcc enters what the reply of an operation that changes n says of it. Without
// attributes what was known is out of date.
func (f *fileSystem) learnWcc(n *node, s stamp, wcc *nfs3.WccData) {
	if !wcc.After.Present {
		f.expire(n)
		return
	}
	r := report{tick: s.tick, sent: s.at, attr: &wcc.After.Attr, own: true}
	if wcc.Before.Present {
		r.pre = &wcc.Before.Attr
	}
	f.report(n, r)
}

func (f *fileSystem) report(n *node, r report) {
	n.mu.Lock()
	was, content := n.attr, n.content
	foreign := n.take(r, f.ticks.Add(1), f.limits(r.attr))
	proven := r.pre != nil && *r.pre == was.Wcc()
	switch {
	case r.own && n.attr == *r.attr && (proven || r.pre == nil && n.unproven && was.Mtime != r.attr.Mtime):
		n.keepRights(&was) // unproven: for as long as names are believed
	case !foreign && n.content != content:
		n.access, n.acl = nil, nil
	}
	n.mu.Unlock()
	if foreign {
		f.changedByOthers(n)
	}
}

// expire has the attributes of n asked for before they are used again.
func (f *fileSystem) expire(n *node) {
	n.mu.Lock()
	n.expired = true
	n.mu.Unlock()
}

// changing and changed stand around a call that changes n.
func (f *fileSystem) changing(n *node) stamp {
	n.mu.Lock()
	n.begin()
	n.mu.Unlock()
	return f.stamp()
}

func (f *fileSystem) changed(n *node) {
	n.mu.Lock()
	n.end(f.ticks.Add(1))
	n.mu.Unlock()
}

// stale takes a node out of use whose handle the server does not know any more. The kernel
// walks the path again when it hears of it, once, and then gets what is there now.
func (f *fileSystem) stale(n *node, err error) error {
	if isStale(err) {
		f.table.disown(n)
	}
	return err
}

// getattr asks the server for the attributes of n.
func (r *request) getattr(n *node) error {
	args, res := nfs3.GetattrArgs{FH: n.fh}, nfs3.GetattrRes{}
	s := r.fs.stamp()
	if err := r.do(nfs3.ProcGetattr, &args, &res, &res.Status); err != nil {
		return r.fs.stale(n, err)
	}
	r.fs.learn(n, s, &res.Attr)
	return nil
}

// fresh has the attributes of n be such as can be trusted.
func (r *request) fresh(n *node) error {
	n.mu.Lock()
	ok := n.left(time.Now()) > 0
	n.mu.Unlock()
	if ok {
		r.fs.counts.hit(hitAttr)
		return nil
	}
	return r.getattr(n)
}

// snapshot is the attributes of n and for how long they may be trusted.
func (n *node) snapshot() (nfs3.Fattr, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.held.Load(); h != nil {
		return h.over(n.attr), 0 // the next look has it sent
	}
	return n.attr, n.left(time.Now())
}

// version is what the content of n is known as.
func (n *node) version() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.content
}

// isDir reports whether n is known to be a directory.
func (n *node) isDir() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attr.Type == nfs3.TypeDir
}

// A refusedName is a name that no server would take.
func (f *fileSystem) checkName(name string) error {
	if len(name) > int(f.nameMax) {
		return &nfsclient.StatusError{Proc: nfs3.ProcLookup, Status: nfs3.ErrNameTooLong}
	}
	return nil
}
