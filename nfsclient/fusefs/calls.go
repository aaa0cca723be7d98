// Calls to the server, and learning from their replies.

package fusefs

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// do runs one procedure for the caller of r.
func (r *request) do(proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, status *nfs3.Status) error {
	return r.who.client.Do(r, proc, args, res, status, nil, 0)
}

// learn enters the attributes of n from the reply to a call sent at s.
func (f *fileSystem) learn(n *node, s stamp, attr *nfs3.Fattr) {
	f.report(n, report{tick: s.tick, sent: s.at, attr: attr})
}

// learnPost is learn for optional attributes.
func (f *fileSystem) learnPost(n *node, s stamp, post *nfs3.PostOpAttr) {
	if post.Present {
		f.learn(n, s, &post.Attr)
	}
}

// learnCtime enters the reply to an operation that changes the ctime of n but never its content. A
// new size or mtime is then a foreign change. Missing attributes expire the cached ones.
func (f *fileSystem) learnCtime(n *node, s stamp, post *nfs3.PostOpAttr) {
	if !post.Present {
		f.expire(n)
	}
	f.learnPost(n, s, post)
}

// learnWcc enters the reply to an operation that changes n. Missing attributes expire the cached
// ones.
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

// report enters r and adjusts cached rights and ACLs. It queues a notice for a foreign change.
func (f *fileSystem) report(n *node, r report) {
	n.mu.Lock()
	was, content := n.attr, n.content
	foreign := n.take(r, f.ticks.Add(1), f.limits(r.attr))
	proven := r.pre != nil && *r.pre == was.Wcc()
	switch {
	case r.own && n.attr == *r.attr && (proven || r.pre == nil && n.unproven && was.Mtime != r.attr.Mtime):
		n.keepRights(&was) // if unproven, only until the names' deadline
	case !foreign && n.content != content:
		n.access, n.acl = nil, nil
	}
	n.mu.Unlock()
	if foreign {
		f.changedByOthers(n)
	}
}

// expire makes the next use of n fetch its attributes.
func (f *fileSystem) expire(n *node) {
	n.mu.Lock()
	n.expired = true
	n.mu.Unlock()
}

// changing and changed enclose a call that changes n.
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

// stale detaches n from its handle if err shows that the server no longer knows the handle. ESTALE
// then makes the kernel walk the path again, once, and get the current object.
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

// fresh fetches the attributes of n unless the cached ones are trusted.
func (r *request) fresh(n *node) error {
	n.mu.Lock()
	ok := n.ttl(time.Now()) > 0
	n.mu.Unlock()
	if ok {
		r.fs.counts.hit(hitAttr)
		return nil
	}
	return r.getattr(n)
}

// snapshot returns the attributes of n and how long they are trusted.
func (n *node) snapshot() (nfs3.Fattr, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.deferred.Load(); h != nil {
		return h.over(n.attr), 0 // timeout 0: the kernel's next request sends the deferred SETATTR
	}
	return n.attr, n.ttl(time.Now())
}

// version returns the content number of n.
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

// checkName returns an error for a name longer than any server accepts.
func (f *fileSystem) checkName(name string) error {
	if len(name) > int(f.nameMax) {
		return &nfsclient.StatusError{Proc: nfs3.ProcLookup, Status: nfs3.ErrNameTooLong}
	}
	return nil
}
