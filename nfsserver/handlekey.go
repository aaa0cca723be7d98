// The key that seals a handle: the server's, or the file system's.

package nfsserver

import "github.com/nfsrdma/nfsrdma/xdr/nfs3"

// keyOf returns the handle key of an open export.
func (s *Server) keyOf(x *export) sipKey {
	if x.key != nil {
		return *x.key
	}
	return s.key
}

// ref returns the Ref in an export's handle, or NFS3ERR_BADHANDLE if the MAC is wrong. A handle
// from before the export began or ceased to have Trees is stale. The key of an unopened export may
// be unknown; clients then get ErrBusy and retry.
func (s *Server) ref(x *export, fh *nfs3.FH) (Ref, error) {
	if !x.ready.Load() {
		if err := x.available(); err != nil {
			return Ref{}, err
		}
		// The export was opened between the two checks.
	}
	_, r, ok := s.keyOf(x).open(fh.Bytes())
	if !ok {
		return Ref{}, nfs3.ErrBadHandle
	}
	if _, inTree := handleTree(fh.Bytes()); inTree != x.chooses() {
		return Ref{}, nfs3.ErrStale
	}
	return r, nil
}

// noExport returns the error for a handle that names no export. A MAC by the server's own key shows
// that the export existed and was removed (stale); otherwise it never existed.
func (s *Server) noExport(fh *nfs3.FH) error {
	if _, _, ok := s.key.open(fh.Bytes()); ok {
		return nfs3.ErrStale
	}
	return nfs3.ErrBadHandle
}
