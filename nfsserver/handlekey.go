// Which key a handle is sealed with: the server's, or that of the file system.

package nfsserver

import "github.com/nfsrdma/nfsrdma/xdr/nfs3"

// keyOf is the key of the handles of an export that is open.
func (s *Server) keyOf(x *export) sipKey {
	if x.key != nil {
		return *x.key
	}
	return s.key
}

// ref is the file of a handle that names export x: NFS3ERR_BADHANDLE where its MAC is another. The
// key of an export that is not open is possibly not known yet, and then its clients are to ask
// again.
func (s *Server) ref(x *export, fh *nfs3.FH) (Ref, error) {
	if !x.ready.Load() {
		if err := x.available(); err != nil {
			return Ref{}, err
		}
		// It was opened between the two looks at it.
	}
	_, r, ok := s.keyOf(x).open(fh.Bytes())
	if !ok {
		return Ref{}, nfs3.ErrBadHandle
	}
	return r, nil
}

// noExport is what a handle gets that names no export: the server's own key tells one of an export
// that is gone from one that never was.
func (s *Server) noExport(fh *nfs3.FH) error {
	if _, _, ok := s.key.open(fh.Bytes()); ok {
		return nfs3.ErrStale
	}
	return nfs3.ErrBadHandle
}
