// GETATTR, READ, WRITE and COMMIT: the procedures of the data path, without allocation.

package nfsclient

import (
	"context"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A getattrOp has the arguments and result of one GETATTR. It is pooled in getattrOps.
type getattrOp struct {
	args nfs3.GetattrArgs
	res  nfs3.GetattrRes
}

var getattrOps = sync.Pool{New: func() any { return new(getattrOp) }}

// Getattr returns the attributes of an object.
func (c *Client) Getattr(ctx context.Context, fh nfs3.FH) (nfs3.Fattr, error) {
	op := getattrOps.Get().(*getattrOp)
	defer getattrOps.Put(op)
	op.args.FH = fh
	err := c.call(ctx, nfs3.ProcGetattr, &op.args, &op.res, &op.res.Status, nil, 0)
	return op.res.Attr, err
}

// A readOp has the arguments and result of one READ, and the memory for its data.
type readOp struct {
	args nfs3.ReadArgs
	res  nfs3.ReadRes
	sink []byte
	n    int
}

var readOps = sync.Pool{New: func() any { return new(readOp) }}

// DecodeXDR reads the result. Inline data is still in the message, so DecodeXDR copies it to the
// sink before the message is released.
func (op *readOp) DecodeXDR(d *xdr.Decoder) {
	op.res.DecodeXDR(d)
	op.n = len(op.res.Data)
	if op.n > len(op.sink) {
		d.Fail(errBadReply) // more than requested
		op.n = 0
	}
	if op.n > 0 && &op.res.Data[0] != &op.sink[0] {
		copy(op.sink, op.res.Data)
	}
	// The slice is part of the message, which is released when DecodeXDR returns.
	op.res.Data = nil
}

// Read reads up to len(p) bytes at off into p by one READ. eof reports whether the file ends after
// these bytes. len(p) must not exceed the server's rtmax. The client owns p until Read returns.
func (c *Client) Read(ctx context.Context, fh nfs3.FH, p []byte, off uint64) (n int, eof bool, err error) {
	return c.ReadAttr(ctx, fh, p, off, nil)
}

// ReadAttr is Read that also returns the file's attributes in the reply, even with an error. attr
// may be nil.
func (c *Client) ReadAttr(ctx context.Context, fh nfs3.FH, p []byte, off uint64, attr *nfs3.PostOpAttr) (n int, eof bool, err error) {
	op := readOps.Get().(*readOp)
	op.res.Attr.Present = false
	op.args = nfs3.ReadArgs{FH: fh, Offset: off, Count: uint32(len(p))}
	op.sink = p
	if len(p) == 0 {
		err = c.call(ctx, nfs3.ProcRead, &op.args, op, &op.res.Status, nil, 0)
	} else {
		err = c.call(ctx, nfs3.ProcRead, &op.args, op, &op.res.Status, p, 0)
	}
	n, eof = op.n, op.res.EOF
	if attr != nil {
		*attr = op.res.Attr
	}
	// Drop the reference: a pooled op must not keep the caller's memory alive.
	op.sink = nil
	readOps.Put(op)
	if err != nil {
		return 0, false, err
	}
	return n, eof, nil
}

// A writeOp has the arguments and result of one WRITE.
type writeOp struct {
	args nfs3.WriteArgs
	res  nfs3.WriteRes
}

var writeOps = sync.Pool{New: func() any { return new(writeOp) }}

// A Written is the result of a WRITE.
type Written struct {
	N         int // bytes written from the start of the data
	Committed nfs3.StableHow
	Verf      nfs3.Verf
}

// Write writes p at off by one WRITE; the server may accept only a part. len(p) must not exceed the
// server's wtmax. p must not change until Write returns.
func (c *Client) Write(ctx context.Context, fh nfs3.FH, p []byte, off uint64, how nfs3.StableHow) (Written, error) {
	return c.WriteWcc(ctx, fh, p, off, how, nil)
}

// WriteWcc is Write that also returns the file's attributes before and after, even with an error.
// wcc may be nil.
func (c *Client) WriteWcc(ctx context.Context, fh nfs3.FH, p []byte, off uint64, how nfs3.StableHow, wcc *nfs3.WccData) (Written, error) {
	op := writeOps.Get().(*writeOp)
	op.res.Wcc = nfs3.WccData{}
	op.args = nfs3.WriteArgs{FH: fh, Offset: off, Count: uint32(len(p)), Stable: how, Data: p}
	err := c.call(ctx, nfs3.ProcWrite, &op.args, &op.res, &op.res.Status, nil, 0)
	w := Written{N: int(op.res.Count), Committed: op.res.Committed, Verf: op.res.Verf}
	if wcc != nil {
		*wcc = op.res.Wcc
	}
	op.args.Data = nil
	writeOps.Put(op)
	if err != nil {
		return Written{}, err
	}
	// A server that accepts 0 bytes without an error would make a writer loop forever. Less
	// stability than requested violates RFC 1813 §3.3.7.
	if w.N > len(p) || w.N == 0 && len(p) > 0 || w.Committed < how {
		return Written{}, errBadReply
	}
	return w, nil
}

// Commit makes the server bring a file's unstable data to stable storage, all of it if count is 0.
// It returns the write verifier.
func (c *Client) Commit(ctx context.Context, fh nfs3.FH, off uint64, count uint32) (nfs3.Verf, error) {
	return c.CommitWcc(ctx, fh, off, count, nil)
}

// CommitWcc is Commit that also returns the file's attributes before and after, even with an error.
// wcc may be nil.
func (c *Client) CommitWcc(ctx context.Context, fh nfs3.FH, off uint64, count uint32, wcc *nfs3.WccData) (nfs3.Verf, error) {
	args := nfs3.CommitArgs{FH: fh, Offset: off, Count: count}
	var res nfs3.CommitRes
	err := c.call(ctx, nfs3.ProcCommit, &args, &res, &res.Status, nil, 0)
	if wcc != nil {
		*wcc = res.Wcc
	}
	return res.Verf, err
}
