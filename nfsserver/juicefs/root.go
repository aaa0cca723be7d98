// The attributes of the volume's root, which need another query.

package juicefs

import (
	"sync"
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// JuiceFS's GetAttr invents the root's attributes, with mode 0777 and no times, when the service
// takes longer than 0.3 s, and the late reply races with that. There are two other queries.
// Resolving the path "/" is one query in Redis. Setting nothing returns the present attributes, but
// is a transaction of several queries, and is refused on a read-only volume.
//
// Every walk from the root queries it. The first query is not safe for concurrent use: JuiceFS
// drops its script when Redis fails. So only one query runs at a time, and its result serves all
// callers that arrived before it began.
type rootAttr struct {
	mu    sync.Mutex  // guards all below
	asked *rootAnswer // of the last query, which may still be running; nil: none so far
	next  *rootAnswer // of the query after that; nil: no caller is waiting
}

// The caller that runs the query sets a rootAnswer, before it closes done.
type rootAnswer struct {
	done chan struct{}
	a    meta.Attr
	no   syscall.Errno
}

// get returns ask's result from a call begun after get.
func (r *rootAttr) get(ask func(*meta.Attr) syscall.Errno) (meta.Attr, syscall.Errno) {
	r.mu.Lock()
	w, before := r.next, r.asked
	mine := w == nil
	if mine {
		w = &rootAnswer{done: make(chan struct{})}
		r.next = w
	}
	r.mu.Unlock()
	if !mine {
		<-w.done
		return w.a, w.no
	}
	if before != nil {
		<-before.done
	}
	r.mu.Lock()
	r.asked, r.next = w, nil // later callers need another query
	r.mu.Unlock()
	defer close(w.done)
	w.no = ask(&w.a)
	return w.a, w.no
}

// askRoot queries the root's attributes.
func (t *files) askRoot(a *meta.Attr) syscall.Errno {
	ino := rootIno
	no := t.m.Resolve(system, rootIno, "/", &ino, a, false)
	switch {
	// ENOTSUP comes from all services except Redis, in a read-only session, and from a failed
	// Redis.
	case no != syscall.ENOTSUP:
		return no
	case t.readOnly:
		return t.m.GetAttr(system, rootIno, a)
	}
	return t.m.SetAttr(system, rootIno, 0, 0, a)
}

// rawRoot returns the root's attributes from the metadata. Concurrent callers share a query. The
// error is ErrBusy if JuiceFS has invented the attributes.
func (t *files) rawRoot() (meta.Attr, error) {
	a, no := t.root.get(t.askRoot)
	switch {
	case no != 0:
		return a, failedOn(no)
	case a.Ctime == 0: // invented
		return a, nfsserver.ErrBusy
	}
	return a, t.hideTrash(rootIno, &a)
}
