// What tests outside the package set inside it.

package nfsserver

// SetGroups has the groups of this machine's users looked up by f.
func (s *Server) SetGroups(f func(uid uint32) (gid uint32, gids []uint32, err error)) {
	s.groups.lookup = f
}
