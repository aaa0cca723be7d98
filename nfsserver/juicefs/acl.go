// POSIX ACLs, which JuiceFS stores for volumes with ACLs enabled.

package juicefs

import (
	"slices"
	"syscall"

	"github.com/juicedata/juicefs/pkg/acl"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// aclTypes are JuiceFS's numbers for the ACLs. noEntry in a rule means an absent entry.
var aclTypes = [...]uint8{nfsserver.AccessACL: acl.TypeAccess, nfsserver.DefaultACL: acl.TypeDefault}

const noEntry = 0xffff

// ACL returns an ACL. A volume has none until they are enabled, which cannot be undone; a client
// that got EOPNOTSUPP asks no more.
func (f *FS) ACL(r nfsserver.Ref, t nfsserver.ACLType) (posixacl.ACL, error) {
	if !f.m.GetFormat().EnableACL {
		return nil, syscall.EOPNOTSUPP
	}
	n, err := f.load(&r)
	switch {
	case err != nil:
		return nil, err
	case t == nfsserver.AccessACL:
		return n.acl, nil
	case !n.dflt:
		return nil, nil
	}
	return f.acl(n.ino, t)
}

// acl reads an existing ACL.
func (f *FS) acl(ino meta.Ino, t nfsserver.ACLType) (posixacl.ACL, error) {
	var rule acl.Rule
	switch no := f.m.GetFacl(system, ino, aclTypes[t], &rule); no {
	case 0:
		return fromRule(&rule), nil
	case meta.ENOATTR:
		return nil, nil // removed just now
	default:
		return nil, failedOn(no)
	}
}

// SetACL sets an ACL; the mode follows in the same transaction.
func (f *FS) SetACL(c nfsserver.Cred, r nfsserver.Ref, t nfsserver.ACLType, a posixacl.ACL) error {
	n, err := f.load(&r)
	switch {
	case err != nil:
		return err
	case !f.m.GetFormat().EnableACL, n.attr.Type == nfsserver.TypeSymlink:
		return syscall.EOPNOTSUPP
	case !perm.Owns(&c, &n.attr):
		return syscall.EPERM
	}
	rule := acl.EmptyRule()
	if len(a) > 0 {
		rule = toRule(a)
	}
	if err := failedOn(f.m.SetFacl(system, n.ino, aclTypes[t], rule)); err != nil || t != nfsserver.AccessACL || c.UID == 0 {
		return err
	}
	// As chmod(2): only a member of the group may keep the set-group-id bit.
	s := nfsserver.SetAttr{Mask: nfsserver.SetMode}
	at, err := f.attrOf(n.ino)
	if err != nil {
		return err
	}
	s.Mode = at.Mode
	perm.SettleMode(&c, at, &s)
	if s.Mode == at.Mode {
		return nil
	}
	return f.set(n.ino, meta.SetAttrMode, &meta.Attr{Mode: uint16(s.Mode)})
}

// fromRule converts a JuiceFS rule to a list.
func fromRule(r *acl.Rule) posixacl.ACL {
	list := posixacl.ACL{{Tag: posixacl.UserObj, Perm: r.Owner & 7, ID: posixacl.NoID}}
	list = appendNamed(list, posixacl.User, r.NamedUsers)
	list = append(list, posixacl.Entry{Tag: posixacl.GroupObj, Perm: r.Group & 7, ID: posixacl.NoID})
	list = appendNamed(list, posixacl.Group, r.NamedGroups)
	if r.Mask != noEntry {
		list = append(list, posixacl.Entry{Tag: posixacl.Mask, Perm: r.Mask & 7, ID: posixacl.NoID})
	}
	return append(list, posixacl.Entry{Tag: posixacl.Other, Perm: r.Other & 7, ID: posixacl.NoID})
}

func appendNamed(list posixacl.ACL, tag posixacl.Tag, named acl.Entries) posixacl.ACL {
	first := len(list)
	for _, e := range named {
		list = append(list, posixacl.Entry{Tag: tag, Perm: e.Perm & 7, ID: e.Id})
	}
	slices.SortFunc(list[first:], func(a, b posixacl.Entry) int { return int(int64(a.ID) - int64(b.ID)) })
	return list
}

// toRule converts a valid list to a JuiceFS rule.
func toRule(list posixacl.ACL) *acl.Rule {
	r := acl.EmptyRule()
	for _, e := range list {
		switch e.Tag {
		case posixacl.UserObj:
			r.Owner = e.Perm
		case posixacl.User:
			r.NamedUsers = append(r.NamedUsers, acl.Entry{Id: e.ID, Perm: e.Perm})
		case posixacl.GroupObj:
			r.Group = e.Perm
		case posixacl.Group:
			r.NamedGroups = append(r.NamedGroups, acl.Entry{Id: e.ID, Perm: e.Perm})
		case posixacl.Mask:
			r.Mask = e.Perm
		case posixacl.Other:
			r.Other = e.Perm
		}
	}
	return r
}
