// Nested exports: how a client of an outer export enters an inner one (crossmnt and nohide of
// exports(5)).

package nfsserver

import (
	"errors"
	"path"
	"strings"
)

// An inner export is a file system mounted inside another export and exported itself. A client
// enters it through the outer export if the outer one has crossmnt or the inner one has nohide. It
// must also have rights in the inner one, which has its own rules and handles. Other clients see
// the mount point's directory or, with crossmnt, the outer FS's view of it. An exported plain
// subdirectory stays part of the outer export, as with knfsd.

// nest records for each entry the nested exports its clients may enter: those with no other export
// in between.
func (t *table) nest() {
	for _, e := range t.entries {
		if e.rules == nil {
			continue
		}
		for _, outer := range t.above(e.x.name) {
			up := outer.e
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

// nestedAt returns the nested export possibly meant by name in q's directory, or nil. It asks the
// file system only if name is the last part of such an export's name.
func (q *request) nestedAt(name string) *entry {
	for _, n := range q.entry.nested {
		if path.Base(n.x.name) == name && q.isAt(path.Dir(n.x.name)) {
			return n
		}
	}
	return nil
}

// isAt reports whether the directory of q is the one at path p, which is in the export.
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

// cross looks up the nested export of a name. It returns the export's root in place of the FS's own
// object; ok is false if there is no nested export the caller may enter. dir is the directory's
// attributes.
func (q *request) cross(name string, dir *Attr) (x *export, r Ref, at Attr, ok bool, err error) {
	if !q.mayCross(name) {
		return nil, r, at, false, nil
	}
	// Before nestedAt, which asks the file system.
	if err := q.call.Busy(); err != nil {
		return nil, r, at, false, err
	}
	n := q.nestedAt(name)
	if n == nil {
		return nil, r, at, false, nil
	}
	if !n.x.enter() {
		return nil, r, at, false, ErrBusy // being replaced right now
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

// mayCross reports whether a name may stand for a nested export. A listing then leaves its
// attributes to LOOKUP.
func (q *request) mayCross(name string) bool {
	for _, n := range q.entry.nested {
		if path.Base(n.x.name) == name {
			return true
		}
	}
	return false
}
