// READ (RFC 1813 §3.3.6).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// read fills the buffer that the data leaves from: over RDMA it is registered memory.
func read(q *request, a *nfs3.ReadArgs, res *nfs3.ReadRes) error {
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
	// No more than the file has: the buffer is as large as the data will be.
	var want uint64
	if a.Offset < at.Size {
		want = min(uint64(a.Count), MaxIO, at.Size-a.Offset)
	}
	if want > 0 {
		buf := q.call.Buffer(int(want))
		// NFS3ERR_JUKEBOX, and not an I/O error: the client asks again, when others have given memory back.
		if buf == nil {
			return ErrBusy
		}
		n, err := q.x.fs.ReadAt(w, q.ref, buf, a.Offset)
		if err != nil {
			return err
		}
		res.Data = buf[:n]
	} else {
		if _, err := q.x.fs.ReadAt(w, q.ref, nil, 0); err != nil {
			return err // a caller without permission is not told where the end is
		}
		// By these attributes alone: the file may have grown since, and no data that
		// is not the end either is an I/O error to clients (RFC 1813 §3.3.6).
		res.EOF = a.Offset >= at.Size
		return nil
	}
	// After the data: attributes of before could be those of a file that was since made shorter, and tell an end
	// that these bytes lie beyond.
	if at, err = q.attr(); err != nil {
		return err
	}
	res.Attr = postOp(&at)
	res.Count = uint32(len(res.Data))
	res.EOF = res.Count == 0 || a.Offset >= at.Size || uint64(res.Count) >= at.Size-a.Offset
	return nil
}
