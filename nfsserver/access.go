// What a caller may do: the checks of a POSIX file system.

package nfsserver

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Permissions, as in one digit of a mode.
const (
	mayRead  = 4
	mayWrite = 2
	mayExec  = 1 // search, for a directory
)

// in reports whether w is of group g.
func (w *Cred) in(g uint32) bool { return w.GID == g || slices.Contains(w.GIDs, g) }

func (w *Cred) root() bool { return w.UID == 0 }

func (w *Cred) owns(a *Attr) bool { return w.root() || w.UID == a.UID }

// may reports whether w has all of the permissions want. The superuser has all,
// but to execute a file that nobody may.
func (w *Cred) may(a *Attr, want uint32) bool {
	if w.root() {
		return want&mayExec == 0 || a.Type == TypeDir || a.Mode&0o111 != 0
	}
	bits := a.Mode
	switch {
	case w.UID == a.UID:
		bits >>= 6
	case w.in(a.GID):
		bits >>= 3
	}
	return bits&want == want
}

// mayReadFile: who owns a file may read it, as they might have opened it before
// its mode changed; and who may execute it must read it to do so (RFC 1813 §4.4).
func (w *Cred) mayReadFile(a *Attr) bool {
	return w.may(a, mayRead) || w.UID == a.UID || w.may(a, mayExec)
}

// mayWriteFile: as for mayReadFile.
func (w *Cred) mayWriteFile(a *Attr) bool { return w.may(a, mayWrite) || w.UID == a.UID }

// mayChangeDir: make and remove names.
func (w *Cred) mayChangeDir(a *Attr) bool { return w.may(a, mayWrite|mayExec) }

// mayUnlink reports whether w may take the name of an object a away from
// directory dir, which w may change: a sticky one lets only owners.
func (w *Cred) mayUnlink(dir, a *Attr) bool {
	return dir.Mode&ModeSticky == 0 || w.owns(dir) || w.owns(a)
}

// access is the ACCESS bits (RFC 1813 §3.3.4) of want that w has.
func (w *Cred) access(a *Attr, want uint32, readOnly bool) uint32 {
	var have uint32
	if w.may(a, mayRead) {
		have |= nfs3.AccessRead
	}
	if w.may(a, mayExec) {
		if a.Type == TypeDir {
			have |= nfs3.AccessLookup
		} else {
			have |= nfs3.AccessExecute
		}
	}
	if w.may(a, mayWrite) && !readOnly {
		have |= nfs3.AccessModify | nfs3.AccessExtend
		if a.Type == TypeDir {
			have |= nfs3.AccessDelete
		}
	}
	return have & want
}

// maySet checks a SETATTR of s on an object with attributes a, and takes the
// set-group-id bit out of a mode that w may not give.
func (w *Cred) maySet(a *Attr, s *SetAttr) error {
	if w.root() {
		return nil
	}
	owner := w.UID == a.UID
	switch {
	case s.Has(SetUID) && (!owner || s.UID != a.UID):
		return nfs3.ErrPerm
	case s.Has(SetGID) && (!owner || s.GID != a.GID && !w.in(s.GID)):
		return nfs3.ErrPerm
	case s.Has(SetMode|SetAtime|SetMtime) && !owner:
		return nfs3.ErrPerm
	case s.Has(SetSize|SetAtimeNow|SetMtimeNow) && !w.mayWriteFile(a):
		return nfs3.ErrAcces
	}
	gid := a.GID
	if s.Has(SetGID) {
		gid = s.GID
	}
	if s.Has(SetMode) && a.Type != TypeDir && !w.in(gid) {
		s.Mode &^= ModeSetgid
	}
	return nil
}

// killSetID is the mode that a file has after w wrote to it, and whether it is
// another: a program that runs as its owner must not become another program.
func (w *Cred) killSetID(a *Attr) (mode uint32, changed bool) {
	mode = a.Mode &^ ModeSetuid
	if mode&0o010 != 0 {
		mode &^= ModeSetgid
	}
	return mode, mode != a.Mode && !w.root()
}

// adopt completes the attributes of a new object of type t that w makes in a
// directory with attributes dir: who it belongs to, and its mode.
func (w *Cred) adopt(dir *Attr, s *SetAttr, t FileType) error {
	if !s.Has(SetMode) {
		s.Mode = 0o600
		if t == TypeDir {
			s.Mode = 0o700
		}
	}
	gid := w.GID
	if dir.Mode&ModeSetgid != 0 {
		gid = dir.GID
		if t == TypeDir {
			s.Mode |= ModeSetgid
		}
	}
	if s.Has(SetUID) && !w.root() && s.UID != w.UID || s.Has(SetGID) && !w.root() && !w.in(s.GID) && s.GID != gid {
		return nfs3.ErrPerm
	}
	if !s.Has(SetUID) {
		s.UID = w.UID
	}
	if !s.Has(SetGID) {
		s.GID = gid
	}
	s.Mask |= SetMode | SetUID | SetGID
	if t != TypeDir && !w.root() && !w.in(s.GID) {
		s.Mode &^= ModeSetgid
	}
	return nil
}
