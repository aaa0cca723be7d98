// What tests outside the package set inside it.

package nfsserver

// SetGroups has the groups of this machine's users looked up by f.
func (s *Server) SetGroups(f func(uid uint32) (gid uint32, gids []uint32, err error)) {
	s.groups.lookup = f
}

// Locked reports whether a call holds the lock of file r of an export.
func (s *Server) Locked(export string, r Ref) bool {
	t := &s.byID[exportID(export)].locks
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[r] != nil
}
