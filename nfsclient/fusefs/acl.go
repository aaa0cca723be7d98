// ACLs: the cached ones, reading and setting them, and the default ACL for new objects.

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

// A knownACL caches an object's ACLs. The cache is valid while the attributes are trusted and mode
// and ctime are unchanged, because an ACL change moves the ctime. After our other operations
// keepRights updates the cached ctime. access is empty if the object has only a mode.
type knownACL struct {
	access, def posixacl.ACL
	err         error // the server has no ACLs for this object
	ctime       nfs3.Time
	mode        uint32
}

// cachedACL returns the cached ACLs of n, or nil if none are valid. The caller holds n.mu.
func (n *node) cachedACL() *knownACL {
	if !n.acl.of(&n.attr) || n.ttl(time.Now()) <= 0 {
		return nil
	}
	return n.acl
}

// of reports whether k is valid for an object with the attributes a.
func (k *knownACL) of(a *nfs3.Fattr) bool { return k != nil && k.ctime == a.Ctime && k.mode == a.Mode }

// deniesSearch reports whether the access ACL acl denies some user or group the right to search.
// Even if the mode grants this right to all, an entry of the ACL may deny it.
func deniesSearch(acl posixacl.ACL) bool {
	return slices.ContainsFunc(acl, func(e posixacl.Entry) bool { return e.Perm&posixacl.Execute == 0 })
}

// fetchSearchACL fetches the ACL of dir if its mode lets all users search it. The kernel must not
// walk through dir without asking if the ACL excludes users. This costs one call for each
// directory. If the call fails, searchVaries treats the ACL as unknown.
func (r *request) fetchSearchACL(dir *node) {
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

// keepACL caches k, which came with the attributes attr in the reply to a call sent at s. It drops
// k if we have set an ACL since s. The caller holds n.mu.
func (n *node) keepACL(k *knownACL, s stamp, attr *nfs3.Fattr) {
	if s.tick > n.aclSet {
		k.ctime, k.mode = attr.Ctime, attr.Mode
		n.acl = k
	}
}

// acls returns the ACLs of n from the cache or from the server.
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
		case err != nil: // a refusal without attributes stays valid while n is unchanged
			n.keepACL(k, s, &n.attr)
		}
		n.mu.Unlock()
	}
	return k, k.err
}

// askACL fetches the ACLs of n; s is the moment of the call.
func (r *request) askACL(n *node) (acls nfsclient.ACLs, attr nfs3.PostOpAttr, s stamp, err error) {
	s = r.fs.stamp()
	acls, attr, err = r.who.client.GetACL(r, n.fh)
	r.fs.learnPost(n, s, &attr)
	return acls, attr, s, r.fs.stale(n, err)
}

// isUnsupported reports whether the server has no ACLs, for one object or at all.
func isUnsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// setACL sets one ACL of n; an empty acl removes it.
func (r *request) setACL(n *node, isDefault bool, acl posixacl.ACL) error {
	if err := r.writeBeforeACL(n); err != nil {
		return err
	}
	dir := n.isDir()
	set := nfsclient.ACLs{Access: acl}
	if dir || isDefault || len(acl) == 0 {
		// One SETACL sets both lists of a directory, and removing an access ACL means setting the
		// ACL equivalent to the mode. Fetch the ACLs first, to keep other clients' changes.
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

// writeBeforeACL sends written data and the deferred SETATTR: after the SETACL the writer may lack
// the right to send them.
func (r *request) writeBeforeACL(n *node) error {
	if err := r.fs.sendDeferred(r, n); err != nil {
		return err
	}
	if err := n.takeDeferredErr(); err != nil {
		return err
	}
	if d := n.file(); d != nil {
		return d.WriteThrough(r)
	}
	return nil
}

// callSetACL sends one SETACL and drops everything derived from the previous ACL. The ctime does
// not show the change reliably, because server clocks are coarse.
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
	if dir && f.manyUsers() && deniesSearch(acls.Access) {
		n.searchers.Add(1)
		f.notices.put(n)
	}
	return nil
}

// newMode returns the mode for a program's new object in dir. The kernel leaves the umask to us
// (FUSE_DONT_MASK), because a default ACL of dir replaces it. That ACL, limited to the requested
// bits, then becomes the object's ACL. The server computes the same ACL, so the result is the same
// whether the mode arrives in the call or in a later SETATTR.
func (r *request) newMode(dir *node, mode, umask uint32) (uint32, error) {
	mode &= 0o7777
	if r.fs.opt.NoACL {
		return mode, nil // the kernel has applied the umask already
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

// givesNoACL reports whether the cached ACL of dir shows that new objects get no ACL.
func (f *fileSystem) givesNoACL(dir *node) bool {
	if f.opt.NoACL {
		return false
	}
	dir.mu.Lock()
	defer dir.mu.Unlock()
	k := dir.cachedACL()
	return k != nil && len(k.def) == 0
}

// madeWithoutACL caches that n, which we have just made, has no ACL.
func (f *fileSystem) madeWithoutACL(n *node, s stamp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keepACL(&knownACL{}, s, &n.attr)
}

// aclErrno returns the errno of setxattr(2) for an invalid ACL.
func aclErrno(err error) error {
	if errors.Is(err, posixacl.ErrVersion) {
		return syscall.EOPNOTSUPP
	}
	return syscall.EINVAL
}
