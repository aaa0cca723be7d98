// READ (RFC 1813 §3.3.6).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// read fills the buffer that the data leaves from: over RDMA it is registered memory.
func (s *Server) read(c *transport.Call) error {
	var a nfs3.ReadArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.ReadRes
	o, err := s.open(&a.FH)
	if err == nil {
		w := s.who(c)
		err = s.doRead(c, &o, &w, &a, &res)
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

func (s *Server) doRead(c *transport.Call, o *object, w *Cred, a *nfs3.ReadArgs, res *nfs3.ReadRes) error {
	at, err := o.getattr()
	if err != nil {
		return err
	}
	res.Attr = postOp(&at)
	switch {
	case at.Type == TypeDir:
		return nfs3.ErrIsDir
	case at.Type != TypeReg:
		return nfs3.ErrInval
	}
	// No more than the file has: the buffer is as large as the data will be.
	var want uint64
	if a.Offset < at.Size {
		want = min(uint64(a.Count), MaxIO, at.Size-a.Offset)
	}
	if want > 0 {
		buf := c.Buffer(int(want))
		if buf == nil {
			return ErrBusy
		}
		n, err := o.x.fs.ReadAt(*w, o.ref, buf, a.Offset)
		if err != nil {
			return err
		}
		res.Data = buf[:n]
	} else if _, err := o.x.fs.ReadAt(*w, o.ref, nil, 0); err != nil {
		return err // who may not read is not told where the end is
	}
	if at, err = o.getattr(); err != nil {
		return err
	}
	res.Attr = postOp(&at)
	res.Count = uint32(len(res.Data))
	res.EOF = a.Offset >= at.Size || uint64(res.Count) >= at.Size-a.Offset
	return nil
}
