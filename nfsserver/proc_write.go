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
		res.Verf = s.verifier() // before the data: if it changes meanwhile the client sends again
		w := s.who(c)
		mu := s.locks.of(&o.ref)
		mu.Lock()
		res.Count, err = s.doWrite(&o, &w, &a, &res.Wcc.Before)
		res.Wcc.After = o.post()
		mu.Unlock()
		if err == nil && a.Stable != nfs3.Unstable {
			err = s.stable(&o, a.Stable == nfs3.DataSync)
		}
		res.Committed = a.Stable
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// doWrite does WRITE under the lock of o and returns how many octets it took.
func (s *Server) doWrite(o *object, w *who, a *nfs3.WriteArgs, before *nfs3.PreOpAttr) (uint32, error) {
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
	case !w.mayWriteFile(&at):
		return 0, nfs3.ErrAcces
	case a.Offset > limit || uint64(a.Count) > limit-a.Offset:
		return 0, nfs3.ErrFBig
	case a.Count == 0:
		return 0, nil
	}
	n, err := o.x.fs.WriteAt(o.ref, a.Data[:min(len(a.Data), MaxIO)], a.Offset)
	if err != nil {
		return 0, err
	}
	if mode, changed := w.killSetID(&at); changed {
		err = o.x.fs.Setattr(o.ref, &SetAttr{Mask: SetMode, Mode: mode})
	}
	return uint32(n), err
}

// stable syncs o. A failure may have cost data that other writes were told is
// safe until COMMIT, whoever wrote it: a new verifier makes them send it again.
func (s *Server) stable(o *object, dataOnly bool) error {
	err := o.x.fs.Sync(o.ref, dataOnly)
	if err != nil && status(err) != nfs3.ErrStale {
		s.newVerifier()
	}
	return err
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
		err = s.doCommit(&o, &res)
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// doCommit syncs the whole file, whatever the range asked for: there is no finer call.
func (s *Server) doCommit(o *object, res *nfs3.CommitRes) error {
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
	res.Verf = s.verifier() // before: see write
	if err := s.stable(o, false); err != nil {
		return err
	}
	res.Wcc.After = o.post()
	return nil
}
