// Setting attributes: mode, owner, size and times.

package fusefs

import (
	"cmp"
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// SetAttr handles chmod, chown, truncate and utimensat.
func (f *fileSystem) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	r := f.begin(opSetattr, cancel, &in.Caller)
	defer r.end()
	n := f.table.get(in.NodeId)
	if n == nil {
		return staleNode
	}
	// truncate(2) needs the right to write, which the kernel leaves to us. A server does not
	// require it from the owner (RFC 1813 §4.4). An open file has been checked.
	if in.Valid&(fuse.FATTR_SIZE|fuse.FATTR_FH) == fuse.FATTR_SIZE {
		if err := r.may(n, nfs3.AccessModify); err != nil {
			return f.status(err)
		}
	}
	if in.Valid&fuse.FATTR_SIZE != 0 && in.Size > f.largest(n) {
		return fuse.Status(syscall.EFBIG)
	}
	if s := sattr(in); !r.deferSetattr(n, &s) {
		if err := r.setattr(n, s); err != nil {
			return f.status(err)
		}
		if err := r.fresh(n); err != nil {
			return f.status(err)
		}
	}
	attr, left := n.snapshot()
	out.SetTimeout(left)
	f.fillAttr(&out.Attr, n, &attr)
	n.replaced(out.Size)
	return fuse.OK
}

// sattr converts the kernel's request. Times outside the wire's range, 1970 to 2106, become the
// nearest one, as in the kernel's own client.
func sattr(in *fuse.SetAttrIn) (s nfs3.Sattr) {
	s.Mode, s.SetMode = in.GetMode()
	s.UID, s.SetUID = in.GetUID()
	s.GID, s.SetGID = in.GetGID()
	s.Size, s.SetSize = in.GetSize()
	s.AtimeHow, s.Atime = setTime(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	s.MtimeHow, s.Mtime = setTime(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	return s
}

// setTime converts one time of a SETATTR: unchanged, the server's clock, or the given moment.
func setTime(valid, set, now uint32, sec uint64, nsec uint32) (nfs3.TimeHow, nfs3.Time) {
	switch {
	case valid&set == 0:
		return nfs3.DontChange, nfs3.Time{}
	case valid&now != 0:
		return nfs3.SetToServerTime, nfs3.Time{}
	}
	return nfs3.SetToClientTime, nfs3.MakeTime(time.Unix(int64(sec), int64(nsec)))
}

// setattr sets attributes of n together with its deferred changes.
func (r *request) setattr(n *node, s nfs3.Sattr) error {
	if s == (nfs3.Sattr{}) {
		return nil
	}
	h := n.mergeDeferred(r.who, &s)
	if h == nil {
		if err := cmp.Or(r.fs.sendDeferred(r, n), n.takeDeferredErr()); err != nil {
			return err
		}
	}
	err := r.setattrNow(n, s)
	if h != nil {
		r.fs.endDeferred(n, h, err)
	}
	return err
}

// setattrNow is setattr without deferred changes. It sends written data first, because later WRITEs
// would change the times again or be refused.
func (r *request) setattrNow(n *node, s nfs3.Sattr) error {
	call := func(ctx context.Context) error { return r.fs.callSetattr(ctx, r.who, n, &s) }
	d := n.file()
	if d == nil {
		return call(r)
	}
	if s != (nfs3.Sattr{SetSize: true, Size: s.Size}) {
		if err := d.WriteThrough(r); err != nil {
			return err
		}
	}
	if !s.SetSize {
		return call(r)
	}
	return d.Truncate(r, int64(s.Size), call)
}

// truncate sets only the size.
func (r *request) truncate(n *node, size uint64) error {
	return r.setattr(n, nfs3.Sattr{SetSize: true, Size: size})
}

// callSetattr sends one SETATTR.
func (f *fileSystem) callSetattr(ctx context.Context, who *caller, n *node, s *nfs3.Sattr) error {
	args, res := nfs3.SetattrArgs{FH: n.fh, Attr: *s}, nfs3.SetattrRes{}
	sent := f.changing(n)
	err := who.client.Do(ctx, nfs3.ProcSetattr, &args, &res, &res.Status, nil, 0)
	f.learnWcc(n, sent, &res.Wcc)
	f.changed(n)
	if err != nil {
		return f.stale(n, err)
	}
	if n.isDir() && f.narrowed(n, s) {
		n.searchers.Add(1)
		f.notices.put(n) // the kernel does not check the changed search rights
	}
	return nil
}

// narrowed reports whether a SETATTR may have taken the right to search n from some callers. The
// reply may lack the new attributes.
func (f *fileSystem) narrowed(n *node, s *nfs3.Sattr) bool {
	if s.SetMode && s.Mode&searchAll != searchAll {
		return f.manyUsers()
	}
	if !s.SetMode && !s.SetUID && !s.SetGID || !f.manyUsers() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attr.Mode&searchAll != searchAll || n.acl != nil && deniesSearch(n.acl.access)
}
