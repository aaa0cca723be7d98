// Access for external tests to the package's internals.

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// SetGroups replaces the look-up of local users' groups.
func (s *Server) SetGroups(f func(uid uint32) (gid uint32, gids []uint32, err error)) {
	s.groups.lookup = f
}

// Locked reports whether a call holds the lock of file r of an export.
func (s *Server) Locked(export string, r Ref) bool {
	t := &s.table.Load().byID[exportID(&Export{Name: export})].x.locks
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[r] != nil
}

// RootHandle returns the handle of an export's root.
func (s *Server) RootHandle(name string) nfs3.FH {
	x := s.table.Load().byID[exportID(&Export{Name: name})].x
	return s.fh(x, &x.root)
}

// StrongEnough runs the security check of NFS calls.
func (s *Server) StrongEnough(c *transport.Call, atMount bool) bool {
	return s.strongEnough(c, atMount)
}

// Acts returns the effective user of a call in an export, as its FS receives it.
func (s *Server) Acts(c *transport.Call, export string) (w Cred, err error) {
	may, _, err := s.strongRights(c, s.table.Load().byID[exportID(&Export{Name: export})])
	if err != nil {
		return w, err
	}
	return s.who(c, may), nil
}
