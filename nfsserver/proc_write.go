// WRITE and COMMIT (RFC 1813 §3.3.7, §3.3.21).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// write writes the data from where it has arrived: over RDMA that is the buffer
// it was pulled into.
func (s *Server) write(c *transport.Call) error {
	var a nfs3.WriteArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.WriteRes
	o, err := s.open(&a.FH)
	if err == nil {
		w := s.who(c)
		err = s.writeStable(&o, &w, &a, &res)
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// writeTries is how often a write that is to be stable is done while syncs of
// others fail beside it.
const writeTries = 3

// writeStable does WRITE and brings the data to where the client wants it.
func (s *Server) writeStable(o *object, w *Cred, a *nfs3.WriteArgs, res *nfs3.WriteRes) error {
	for range writeTries {
		res.Verf = o.x.written.get() // before the data: if it changes meanwhile the client sends again
		lock := o.x.locks.lock(&o.ref)
		var err error
		res.Count, err = s.doWrite(o, w, a, &res.Wcc.Before)
		res.Wcc.After = o.post()
		o.x.locks.unlock(lock)
		if err != nil || a.Stable == nfs3.Unstable {
			return err
		}
		res.Committed = a.Stable
		if err := o.x.stable(&o.ref, a.Stable == nfs3.DataSync); err != nil {
			return err
		}
		if res.Verf == o.x.written.get() {
			return nil
		}
		// A sync of another call on this export has failed since, and may have lost these octets too.
	}
	return nfs3.ErrIO
}

// doWrite does WRITE under the lock of o and returns how many octets it took.
func (s *Server) doWrite(o *object, w *Cred, a *nfs3.WriteArgs, before *nfs3.PreOpAttr) (uint32, error) {
	at, err := o.getattr()
	if err != nil {
		return 0, err
	}
	*before = preOp(&at)
	limit := o.x.info.MaxFileSize
	switch {
	case o.x.readOnly:
		return 0, nfs3.ErrROFS
	case at.Type == TypeDir:
		return 0, nfs3.ErrIsDir
	case at.Type != TypeReg || uint64(a.Count) != uint64(len(a.Data)):
		return 0, nfs3.ErrInval
	case a.Offset > limit || uint64(a.Count) > limit-a.Offset:
		return 0, nfs3.ErrFBig
	}
	n, err := o.x.fs.WriteAt(*w, o.ref, a.Data[:min(len(a.Data), MaxIO)], a.Offset)
	return uint32(n), err
}

func (s *Server) commit(c *transport.Call) error {
	var a nfs3.CommitArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.CommitRes
	o, err := s.open(&a.FH)
	if err == nil {
		w := s.who(c)
		err = s.doCommit(&o, &w, &res)
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// doCommit syncs the whole file, whatever the range asked for: there is no finer
// call. Who may not write it may not keep the disk busy either.
func (s *Server) doCommit(o *object, w *Cred, res *nfs3.CommitRes) error {
	at, err := o.getattr()
	if err != nil {
		return err
	}
	res.Wcc.Before = preOp(&at)
	res.Wcc.After = postOp(&at)
	switch {
	case at.Type == TypeDir:
		return nfs3.ErrIsDir
	case at.Type != TypeReg:
		return nfs3.ErrInval
	case o.x.readOnly:
		return nfs3.ErrROFS
	}
	if _, err := o.x.fs.WriteAt(*w, o.ref, nil, 0); err != nil {
		return err
	}
	if err := o.x.stable(&o.ref, false); err != nil {
		return err
	}
	res.Verf = o.x.written.get() // after: a sync that failed before ours has lost what ours did not find
	res.Wcc.After = o.post()
	return nil
}
