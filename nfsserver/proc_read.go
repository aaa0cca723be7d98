// READ (RFC 1813 §3.3.6).

package nfsserver

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// read fills the buffer from which the reply is sent: over RDMA this is registered memory.
func read(q *request, a *nfs3.ReadArgs, res *nfs3.ReadRes) error {
	// A long READ is busy even if its data is in memory: other calls would wait for the copy.
	inUse := a.Count <= quickRead && q.x.info.Quick && q.x.opt.now != nil && q.x.opt.now.ReadsInUse(q.ref) && q.srv.knowsUser(q.call)
	if !inUse {
		if err := q.call.Busy(); err != nil {
			return err
		}
	}
	at, err := q.attr()
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
	w := q.who()
	// Read no more than the file has, so the buffer is no larger than the data.
	var want uint64
	if a.Offset < at.Size {
		want = min(uint64(a.Count), MaxIO, at.Size-a.Offset)
	}
	switch {
	case want > 0:
		buf := q.call.Buffer(int(want))
		// NFS3ERR_JUKEBOX, not an I/O error: the client retries when memory is free again.
		if buf == nil {
			return ErrBusy
		}
		n, err := q.readInto(w, buf, a.Offset)
		if err != nil {
			return err
		}
		res.Data = buf[:n]
	default:
		if err := q.call.Busy(); err != nil {
			return err
		}
		if _, err := q.x.fs.ReadAt(w, q.ref, nil, 0); err != nil {
			return err // without permission the caller learns no file size
		}
		// EOF follows from the attributes read above, even if the file has grown since. Clients
		// treat an empty reply without EOF as an I/O error (RFC 1813 §3.3.6).
		res.EOF = a.Offset >= at.Size
		return nil
	}
	// Read the attributes after the data. If the file is truncated in between, earlier attributes
	// could report EOF before the bytes of this reply.
	if at, err = q.attr(); err != nil {
		return err
	}
	res.Attr = postOp(&at)
	res.Count = uint32(len(res.Data))
	res.EOF = res.Count == 0 || a.Offset >= at.Size || uint64(res.Count) >= at.Size-a.Offset
	return nil
}

// readInto reads a file into the reply and returns the number of bytes. If the connection and the
// FS support that, the file is read as the reply is sent; otherwise now, into buf.
func (q *request) readInto(w Cred, buf []byte, off uint64) (int, error) {
	if !q.call.IsBusy() {
		if n, ok := q.x.opt.now.ReadInUse(w, q.ref, buf, off); ok {
			return n, nil
		}
		if err := q.call.Busy(); err != nil {
			return 0, err
		}
	}
	if q.x.opt.later != nil && q.call.TakesDeferredItem(len(buf)) {
		src, err := q.x.opt.later.ReadLater(w, q.ref, len(buf), off)
		if err == nil {
			q.call.DeferItem(src, int64(off), len(buf), nfs3.CutRead)
			return len(buf), nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return 0, err
		}
	}
	return q.x.fs.ReadAt(w, q.ref, buf, off)
}
