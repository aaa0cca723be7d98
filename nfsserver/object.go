// Objects: the file of a call's handle, and its attributes in wire form.

package nfsserver

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An object is a file of an export.
type object struct {
	x   *export
	ref Ref
	may *rights // the caller's rights in the export
}

// An opener finds the object of a handle and its caller's rights. Errors: NFS3ERR_BADHANDLE for a
// forged or malformed handle, NFS3ERR_STALE for a removed export, NFS3ERR_JUKEBOX for an export not
// open yet, and refusals by Rules. Without an error the caller uses the export until o.x.leave.
type opener func(c *transport.Call, fh *nfs3.FH) (e *entry, o object, err error)

// open is the opener for calls that meet the rule's demands on flavor and connection. authorizeNFS
// has checked these, but a Replace may have come between.
func (s *Server) open(c *transport.Call, fh *nfs3.FH) (e *entry, o object, err error) {
	return s.openWith(c, fh, func(e *entry) (*rights, bool, error) {
		may, _, err := s.strongRights(c, e)
		return may, false, err
	})
}

// openAtMount is open, and the opener of the export's root for a client that has not chosen its
// flavor yet.
func (s *Server) openAtMount(c *transport.Call, fh *nfs3.FH) (e *entry, o object, err error) {
	return s.openWith(c, fh, func(e *entry) (*rights, bool, error) {
		may, weak, err := s.strongRights(c, e)
		if weak == weakFlavor && may.mayBeginMount(c) {
			return may.flavors[0].may, true, nil
		}
		return may, false, err
	})
}

// openAny is the opener for programs whose clients have no flavor but AUTH_SYS, and no TLS.
func (s *Server) openAny(c *transport.Call, fh *nfs3.FH) (e *entry, o object, err error) {
	return s.openWith(c, fh, func(e *entry) (*rights, bool, error) {
		may, err := s.rights(c, e)
		if err == nil {
			if own := may.flavor(c.Cred.Flavor); own != nil {
				may = own
			}
		}
		return may, false, err
	})
}

// openWith is an opener with the rights returned by allow, which may be for the root alone.
func (s *Server) openWith(c *transport.Call, fh *nfs3.FH, allow func(*entry) (may *rights, rootOnly bool, err error)) (e *entry, o object, err error) {
	id, ok := handleExport(fh.Bytes())
	if !ok {
		return nil, o, nfs3.ErrBadHandle
	}
	e = s.enter(id)
	if e == nil {
		return nil, o, s.noExport(fh)
	}
	x := e.x
	defer func() {
		if o.x == nil { // refused, or Trees.May or Options.Squash has panicked
			x.leave()
		}
	}()
	r, unopened := s.ref(x, fh)
	if unopened != nil && !errors.Is(unopened, ErrBusy) {
		return nil, o, unopened
	}
	may, rootOnly, err := allow(e)
	if err == nil {
		err = unopened
	}
	if err == nil && x.trees != nil {
		number, _ := handleTree(fh.Bytes())
		var tree *export
		if tree, err = x.trees.find(c, number, rootOnly); err == nil {
			x.leave()
			x = tree
		}
	}
	if err == nil && rootOnly && r != x.root {
		err = nfs3.ErrAcces
	}
	if err != nil {
		return nil, o, err
	}
	return e, object{x, r, may}, nil
}

// fh returns the handle of file r in the export; an empty one for a Ref too long for a tree.
func (s *Server) fh(x *export, r *Ref) nfs3.FH {
	var h handle
	if x.of != nil {
		s.key.sealTree(&h, x.id, x.number, r)
	} else {
		s.keyOf(x).seal(&h, x.id, r)
	}
	fh, _ := nfs3.MakeFH(h.bytes())
	return fh
}

// postOpFH returns the handle of file r for replies with an optional handle.
func (s *Server) postOpFH(x *export, r *Ref) nfs3.PostOpFH {
	fh := s.fh(x, r)
	return nfs3.PostOpFH{Present: fh.Len() > 0, FH: fh}
}

func (o *object) attr() (Attr, error) { return o.x.fs.Getattr(o.ref) }

// post returns the attributes of o for a reply, or none on an error.
func (o *object) post() nfs3.PostOpAttr {
	if o.x == nil {
		return nfs3.PostOpAttr{}
	}
	a, err := o.attr()
	if err != nil {
		return nfs3.PostOpAttr{}
	}
	return postOp(&a)
}

func postOp(a *Attr) nfs3.PostOpAttr { return nfs3.PostOpAttr{Present: true, Attr: fattr(a)} }

// before returns at, the attributes of o just before a change, for the reply's pre_op_attr. A
// client with equal cached attributes takes all later changes for its own, and keeps its cache. So
// the server sends them only if no other change can come in between.
//
// A directory may change outside this server's locks. If a name were created in between, the client
// would never learn of the name, so for such a directory before returns none. Files still get them:
// without them Linux's client assumes that a WRITE changed only its own data, so the client would
// miss more writes by others. After a SETATTR without them the client drops its cache, as after
// each utimes(2).
func (o *object) before(at *Attr) nfs3.PreOpAttr {
	if o.x.info.Shared && at.Type == TypeDir {
		return nfs3.PreOpAttr{}
	}
	return preOp(at)
}

func preOp(a *Attr) nfs3.PreOpAttr {
	return nfs3.PreOpAttr{Present: true, Attr: nfs3.WccAttr{Size: a.Size, Mtime: wireTime(a.Mtime), Ctime: wireTime(a.Ctime)}}
}

// fattr converts attributes to the wire form.
func fattr(a *Attr) nfs3.Fattr {
	return nfs3.Fattr{
		Type: nfs3.FileType(a.Type), Mode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID, Size: a.Size, Used: a.Used,
		Rdev: nfs3.Specdata{Major: a.Rdev.Major, Minor: a.Rdev.Minor}, Fsid: a.Fsid, Fileid: a.Fileid,
		Atime: wireTime(a.Atime), Mtime: wireTime(a.Mtime), Ctime: wireTime(a.Ctime),
	}
}

// wireTime clamps a time to the range of the wire form, 1970 to 2106.
func wireTime(t Time) nfs3.Time {
	switch {
	case t.Sec < 0:
		return nfs3.Time{}
	case t.Sec > 1<<32-1:
		return nfs3.Time{Sec: 1<<32 - 1, Nsec: 999999999}
	}
	return nfs3.Time{Sec: uint32(t.Sec), Nsec: t.Nsec}
}

// setAttr converts a call's attributes for the FS; invalid nanoseconds give EINVAL.
func setAttr(w *nfs3.Sattr) (s SetAttr, err error) {
	set := func(on bool, m SetMask) {
		if on {
			s.Mask |= m
		}
	}
	set(w.SetMode, SetMode)
	set(w.SetUID, SetUID)
	set(w.SetGID, SetGID)
	set(w.SetSize, SetSize)
	set(w.AtimeHow == nfs3.SetToClientTime, SetAtime)
	set(w.MtimeHow == nfs3.SetToClientTime, SetMtime)
	set(w.AtimeHow == nfs3.SetToServerTime, SetAtimeNow)
	set(w.MtimeHow == nfs3.SetToServerTime, SetMtimeNow)
	s.Mode, s.UID, s.GID, s.Size = w.Mode&ModeAll, w.UID, w.GID, w.Size
	s.Atime = Time{int64(w.Atime.Sec), w.Atime.Nsec}
	s.Mtime = Time{int64(w.Mtime.Sec), w.Mtime.Nsec}
	if s.Atime.Nsec >= 1e9 || s.Mtime.Nsec >= 1e9 {
		return s, nfs3.ErrInval
	}
	if s.Has(SetUID) && s.UID == ^uint32(0) || s.Has(SetGID) && s.GID == ^uint32(0) {
		return s, nfs3.ErrInval // chown takes this value as "unchanged"
	}
	return s, nil
}

// verfTimes converts a create verifier to the two times that store it. The seconds have 31 bits,
// which every file system can store.
func verfTimes(v nfs3.Verf) (atime, mtime Time) {
	const mask = 1<<31 - 1
	return Time{Sec: int64(binary.BigEndian.Uint32(v[:]) & mask)}, Time{Sec: int64(binary.BigEndian.Uint32(v[4:]) & mask)}
}
