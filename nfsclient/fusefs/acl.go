// ACLs: what is known of them, reading and setting them, and what a directory gives to new objects.

package fusefs

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A knownACL is what the server said of an object's ACLs. It holds while the attributes are trusted
// and mode and ctime are the same, which a change of an ACL moves, or was moved by operations of
// ours alone that change none of these. Where the object has only a mode, access is empty.
type knownACL struct {
	access, def posixacl.ACL
	err         error // the server has no ACLs of this object
	ctime       nfs3.Time
	mode        uint32
}

// cachedACL is what is known of the ACLs of n; nil: the server has to be asked. The caller holds
// mu.
func (n *node) cachedACL() *knownACL {
	if !n.acl.of(&n.attr) || n.left(time.Now()) <= 0 {
		return nil
	}
	return n.acl
}

// of reports whether k was learned of an object that is as a says.
func (k *knownACL) of(a *nfs3.Fattr) bool { return k != nil && k.ctime == a.Ctime && k.mode == a.Mode }

// keepsOut reports whether some user or group has no right to search a directory with the access
// ACL acl, though its mode may give everybody the right: an entry that names them does not.
func keepsOut(acl posixacl.ACL) bool {
	return slices.ContainsFunc(acl, func(e posixacl.Entry) bool { return e.Perm&posixacl.Execute == 0 })
}

// learnSearchers has the ACL of dir be known where the mode says that all may search it: the kernel
// must not walk by names in it without asking if the ACL names users without the right. It is one
// call for each directory. What the server does not say is seen by searched.
func (r *request) learnSearchers(dir *node) {
	if r.fs.opt.NoACL || !r.fs.manyUsers() || r.fs.opt.LookupCache == LookupNone {
		return
	}
	dir.mu.Lock()
	known := dir.attr.Mode&searchAll != searchAll || dir.acl.of(&dir.attr)
	dir.mu.Unlock()
	if !known {
		_, _ = r.acls(dir)
	}
}

// keepACL enters k, which the reply of a call sent at s has brought with the attributes attr. One
// that was under way while we have set another is void. The caller holds mu.
func (n *node) keepACL(k *knownACL, s stamp, attr *nfs3.Fattr) {
	if s.tick > n.aclSet {
		k.ctime, k.mode = attr.Ctime, attr.Mode
		n.acl = k
	}
}

// acls is the ACLs of n, from what is known or from the server.
func (r *request) acls(n *node) (*knownACL, error) {
	n.mu.Lock()
	k, fsid := n.cachedACL(), n.attr.Fsid
	n.mu.Unlock()
	switch {
	case k != nil:
	case r.fs.noACLs.has(fsid, time.Now()):
		return nil, syscall.EOPNOTSUPP
	default:
		acls, attr, s, err := r.askACL(n)
		if err != nil && !isUnsupported(err) {
			return nil, err
		}
		if err != nil {
			r.fs.noACLs.add(fsid, time.Now())
		}
		k = &knownACL{access: acls.Access, def: acls.Default, err: err}
		if k.access.IsMode() {
			k.access = nil
		}
		n.mu.Lock()
		switch {
		case attr.Present:
			n.keepACL(k, s, &attr.Attr)
		case err != nil: // a refusal that says nothing of the object holds while it is as before
			n.keepACL(k, s, &n.attr)
		}
		n.mu.Unlock()
	}
	return k, k.err
}

// askACL asks the server for the ACLs of n; s is when.
func (r *request) askACL(n *node) (acls nfsclient.ACLs, attr nfs3.PostOpAttr, s stamp, err error) {
	s = r.fs.stamp()
	acls, attr, err = r.who.client.GetACL(r, n.fh)
	r.fs.learnPost(n, s, &attr)
	return acls, attr, s, r.fs.stale(n, err)
}

// isUnsupported reports whether the server has no ACLs, of one object or of any.
func isUnsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// setACL sets one of the ACLs of n; an empty one is taken away.
func (r *request) setACL(n *node, isDefault bool, acl posixacl.ACL) error {
	if err := r.writeFirst(n); err != nil {
		return err
	}
	dir := n.isDir()
	set := nfsclient.ACLs{Access: acl}
	if dir || isDefault || len(acl) == 0 {
		// Both lists of a directory are set by one call, and to take an access ACL away is to set
		// what the mode says. What others have set meanwhile must not be undone, so the server is
		// asked.
		is, attr, _, err := r.askACL(n)
		if err != nil {
			return err
		}
		switch {
		case isDefault:
			set = nfsclient.ACLs{Access: is.Access, Default: acl}
		case len(acl) == 0 && !attr.Present:
			set.Access = posixacl.FromMode(is.Access.Mode())
			set.Default = is.Default
		case len(acl) == 0:
			set = nfsclient.ACLs{Access: posixacl.FromMode(attr.Attr.Mode), Default: is.Default}
		default:
			set.Default = is.Default
		}
	}
	return r.callSetACL(n, set, dir)
}

// writeFirst sends what was written and what is held: a writer may lose his right by the call that
// follows.
func (r *request) writeFirst(n *node) error {
	if err := r.fs.sendHeld(r, n); err != nil {
		return err
	}
	if err := n.tellHeld(); err != nil {
		return err
	}
	if d := n.file(); d != nil {
		return d.WriteThrough(r)
	}
	return nil
}

// callSetACL is one SETACL. All that followed from the ACL before is forgotten, though the ctime
// can be the same: the clocks of servers tick slowly.
func (r *request) callSetACL(n *node, acls nfsclient.ACLs, dir bool) error {
	f := r.fs
	s := f.stamp()
	attr, err := r.who.client.SetACL(r, n.fh, acls, dir)
	f.learnCtime(n, s, &attr)
	n.mu.Lock()
	n.acl, n.access, n.aclSet = nil, nil, f.ticks.Add(1)
	fsid := n.attr.Fsid
	n.mu.Unlock()
	if err != nil {
		return f.stale(n, err)
	}
	f.noACLs.remove(fsid)
	f.forgetAttrs(n) // the kernel does not know that the mode has changed
	if dir && f.manyUsers() && keepsOut(acls.Access) {
		n.searchers.Add(1)
		f.notices.put(n)
	}
	return nil
}

// newMode is the mode of an object that a program makes in dir. The kernel leaves the umask to us
// (FUSE_DONT_MASK), since it does not count where the directory has a default ACL: that gives the
// object its ACL, less what the program did not ask for. The server does the same; its answer must
// not depend on whether it takes the mode with the call or by a SETATTR after it.
func (r *request) newMode(dir *node, mode, umask uint32) (uint32, error) {
	mode &= 0o7777
	if r.fs.opt.NoACL {
		return mode, nil // less the umask already
	}
	k, err := r.acls(dir)
	switch {
	case err != nil && !isUnsupported(err):
		return 0, err
	case err != nil || len(k.def) == 0:
		return mode &^ (umask & 0o777), nil
	}
	return mode&^0o777 | mode&k.def.Mode(), nil
}

// givesNoACL reports whether what is made in dir has no ACL, as far as that is known.
func (f *fileSystem) givesNoACL(dir *node) bool {
	if f.opt.NoACL {
		return false
	}
	dir.mu.Lock()
	defer dir.mu.Unlock()
	k := dir.cachedACL()
	return k != nil && len(k.def) == 0
}

// madeWithoutACL notes that n, which we have just made, has none.
func (f *fileSystem) madeWithoutACL(n *node, s stamp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keepACL(&knownACL{}, s, &n.attr)
}

// errno of an ACL's bytes, as setxattr(2) has it.
func aclErrno(err error) error {
	if errors.Is(err, posixacl.ErrVersion) {
		return syscall.EOPNOTSUPP
	}
	return syscall.EINVAL
}
