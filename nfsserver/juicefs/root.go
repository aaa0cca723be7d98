// The attributes of the volume's root, about which JuiceFS is asked in another way.

package juicefs

import (
	"sync"
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// GetAttr makes the root's attributes up, with mode 0777 and no times, when the service takes 0.3 s, and what it has asked races with
// that. There are two other ways: to resolve the path "/", which Redis does in one question, and to set nothing, which returns what
// there is. That is a transaction, of several questions, and refused where nothing is to be changed.
//
// The root is asked about by every walk from it, and the first way is no concurrent one: JuiceFS forgets its script where Redis
// fails. So there is one question at a time, which answers all who came before it was asked.
type rootAttr struct {
	mu    sync.Mutex  // guards all below
	asked *rootAnswer // of the last question that was asked, which is possibly under way; nil: there was none
	next  *rootAnswer // of the question that is asked after that; nil: nobody has come
}

// A rootAnswer is set by who asks, before done is closed.
type rootAnswer struct {
	done chan struct{}
	a    meta.Attr
	no   syscall.Errno
}

// get returns what ask does, which begins after get does.
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
	r.asked, r.next = w, nil // who comes from now on is not answered by this
	r.mu.Unlock()
	defer close(w.done)
	w.no = ask(&w.a)
	return w.a, w.no
}

// askRoot asks for the root's attributes.
func (t *files) askRoot(a *meta.Attr) syscall.Errno {
	ino := rootIno
	no := t.m.Resolve(system, rootIno, "/", &ino, a, false)
	switch {
	case no != syscall.ENOTSUP: // which is the answer of all services but Redis, of a session that only reads, and of a Redis that has failed
		return no
	case t.readOnly:
		return t.m.GetAttr(system, rootIno, a)
	}
	return t.m.SetAttr(system, rootIno, 0, 0, a)
}

// rawRoot is raw of the root.
func (t *files) rawRoot() (meta.Attr, error) {
	a, no := t.root.get(t.askRoot)
	switch {
	case no != 0:
		return a, failedOn(no)
	case a.Ctime == 0: // made up
		return a, nfsserver.ErrBusy
	}
	return a, t.hideTrash(rootIno, &a)
}
