// Exports inside others: how a client of the one above comes to the one below (crossmnt and nohide
// of exports(5)).

package nfsserver

import (
	"errors"
	"path"
	"strings"

	"github.com/nfsrdma/nfsrdma/transport"
)

// A file system that is mounted inside an export and is exported by itself is entered through the
// export above where that has crossmnt or the one below has nohide, and the client may use the one
// below: it has its own rules and handles. Others see the directory that it is mounted on or, with
// crossmnt, what the FS above shows there. A mere subdirectory that is exported by itself stays
// part of the export above, as it does with knfsd.

// nest notes for each entry which others its clients may enter: of those below it, the ones with no
// other between.
func (t *table) nest() {
	for _, e := range t.entries {
		if e.rules == nil {
			continue
		}
		for _, place := range t.above(e.x.name) {
			up := place.e
			if up == e {
				continue
			}
			if up.crosses || e.rules.Whole.NoHide {
				up.nested = append(up.nested, e)
			}
			break
		}
	}
}

// nestedAt returns the entry below that could be what name in the directory of q stands for. It
// asks the file system only for a name that is the last part of such an entry's.
func (q *request) nestedAt(name string) *entry {
	for _, n := range q.entry.nested {
		if path.Base(n.x.name) == name && q.isAt(path.Dir(n.x.name)) {
			return n
		}
	}
	return nil
}

// isAt reports whether the directory of q is the one of path p, which is in the export.
func (q *request) isAt(p string) bool {
	at := q.x.root
	for name := range strings.SplitSeq(strings.Trim(strings.TrimPrefix(p, q.x.name), "/"), "/") {
		if name == "" {
			break
		}
		var err error
		if at, _, err = q.x.fs.Lookup(Self(), at, name); err != nil {
			return false
		}
	}
	return at == q.ref
}

// cross gives the handle and the attributes of the export that a name stands for, in place of what
// the FS of the directory has there; ok is false where it is none that the caller may enter. dir is
// the attributes of the directory.
func (q *request) cross(name string, dir *Attr) (x *export, r Ref, at Attr, ok bool, err error) {
	n := q.nestedAt(name)
	if n == nil {
		return nil, r, at, false, nil
	}
	if !q.call.MayWait() {
		return nil, r, at, false, transport.ErrWouldWait
	}
	if !n.x.enter() {
		return nil, r, at, false, ErrBusy // it is just being replaced
	}
	defer n.x.leave()
	if _, err := q.srv.rights(q.call, n); err != nil {
		if errors.Is(err, ErrBusy) {
			return nil, r, at, false, err
		}
		return nil, r, at, false, nil
	}
	if err := n.x.available(); err != nil {
		return nil, r, at, false, err
	}
	if at, err = n.x.fs.Getattr(n.x.root); err != nil || at.Fsid == dir.Fsid {
		return nil, r, at, false, err
	}
	return n.x, n.x.root, at, true, nil
}

// mayCross reports whether a name could stand for another export, so that a listing leaves it to
// LOOKUP to tell.
func (q *request) mayCross(name []byte) bool {
	for _, n := range q.entry.nested {
		if path.Base(n.x.name) == string(name) {
			return true
		}
	}
	return false
}
