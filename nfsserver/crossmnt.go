// Nested exports: how a client of an outer export enters an inner one (crossmnt and nohide of
// exports(5)).

package nfsserver

import (
	"errors"
	"path"
	"strings"
)

// An inner export is a file system mounted inside another export and exported itself. A client
// enters the inner export through the outer export if the outer has crossmnt or the inner has
// nohide. The client must also have rights in the inner export, which has its own rules and
// handles. A call too weak for the inner export's rule is refused. Other clients see the mount
// point's directory or, with crossmnt, the outer FS's view of that directory. An exported plain
// subdirectory stays part of the outer export, as with knfsd. An export with Trees has no inner and
// no outer exports.

// nest records for each entry the nested exports that its clients may enter directly: those with no
// other export in between.
func (t *table) nest() {
	for _, e := range t.entries {
		if e.rules == nil || e.x.trees != nil {
			continue
		}
		for _, outer := range t.above(e.x.name) {
			up := outer.e
			if up == e {
				continue
			}
			if (up.crosses || e.rules.Whole.NoHide) && up.x.trees == nil {
				up.nested = append(up.nested, e)
			}
			break
		}
	}
}

// nestedAt returns the nested export to which name in q's directory may lead, or nil. It asks the
// file system only if name is the last component of a nested export's name.
func (q *request) nestedAt(name string) *entry {
	for _, n := range q.entry.nested {
		if path.Base(n.x.name) == name && q.isAt(path.Dir(n.x.name)) {
			return n
		}
	}
	return nil
}

// isAt reports whether q's directory is the directory at path p in the export.
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

// cross looks up the nested export at a name. It returns the export's root in place of the outer
// FS's object; ok is false if the caller may enter no nested export there. dir is the directory's
// attributes.
func (q *request) cross(name string, dir *Attr) (x *export, r Ref, at Attr, ok bool, err error) {
	if !q.mayCross(name) {
		return nil, r, at, false, nil
	}
	// Busy comes before nestedAt, because nestedAt asks the file system.
	if err := q.call.Busy(); err != nil {
		return nil, r, at, false, err
	}
	n := q.nestedAt(name)
	if n == nil {
		return nil, r, at, false, nil
	}
	if !n.x.enter() {
		return nil, r, at, false, ErrBusy // the export is being replaced right now
	}
	defer n.x.leave()
	switch may, weak, err := q.srv.strongRights(q.call, n); {
	case weak != strong:
		// The outer FS's view would serve the files under weaker demands.
		q.srv.logWeak(q.call, n, may, weak)
		return nil, r, at, false, err
	case errors.Is(err, ErrBusy):
		return nil, r, at, false, err
	case err != nil:
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

// mayCross reports whether a name may lead to a nested export. A listing then leaves the name's
// attributes to LOOKUP.
func (q *request) mayCross(name string) bool {
	for _, n := range q.entry.nested {
		if path.Base(n.x.name) == name {
			return true
		}
	}
	return false
}
