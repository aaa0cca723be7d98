// Permissions for objects in memory.

package memfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// rights returns the attributes on which permissions for n depend; n.mu is held.
func (n *inode) rights() perm.Object { return perm.Object{Attr: &n.attr} }

// check is rights().Check for callers without n.mu.
func (n *inode) check(c *nfsserver.Cred, want uint32) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.rights().Check(c, want)
}

// Access returns the subset of want granted to c.
func (f *FS) Access(c nfsserver.Cred, r nfsserver.Ref, want uint32) (have uint32, err error) {
	n, err := f.get(&r)
	if err != nil {
		return 0, err
	}
	for bit := uint32(1); bit <= nfsserver.MayRead; bit <<= 1 {
		if want&bit != 0 && n.check(&c, bit) == nil {
			have |= bit
		}
	}
	return have, nil
}

// mayUnlink checks whether c may remove n's name from directory d.
func mayUnlink(c *nfsserver.Cred, d, n *inode) error {
	dir, a := d.getattr(), n.getattr()
	return perm.Object{Attr: &dir}.MayUnlink(c, &a)
}
