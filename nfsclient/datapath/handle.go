// Handle: one open file.

package datapath

import (
	"context"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Handle is one open file. Its methods may be called at once.
//
// The error of a WRITE or COMMIT that was made in the background is returned once by
// each Handle that the file had at that time: by its next Write, Sync, Flush or Close.
// A Write that returns such an error has accepted nothing.
type Handle struct {
	file *File
}

// File is the File that the Handle was opened of.
func (h *Handle) File() *File { return h.file }

// Read reads at off into p, until p is full or the file ends, and reports whether it
// has ended. Written data is seen, be it at the server or not.
func (h *Handle) Read(ctx context.Context, cred Cred, p []byte, off int64) (n int, eof bool, err error) {
	return h.ReadDirect(ctx, cred, p, off)
}

// View is Read without a copy where that can be: the data is in memory of the Engine, the
// very memory that READ was answered to. At most size bytes are returned, fewer only
// at the end of the file. size must not be over 4 MiB.
func (h *Handle) View(ctx context.Context, cred Cred, size int, off int64) (View, error) {
	p := make([]byte, size)
	n, eof, err := h.ReadDirect(ctx, cred, p, off)
	return View{Data: p[:n], EOF: eof}, err
}

// A View is bytes of a file. The zero View is of none.
type View struct {
	Data []byte // valid until Release; read only
	EOF  bool   // the file ends after Data
}

// Release gives the memory back. It must be called once for each View.
func (v *View) Release() { *v = View{} }

// ReadDirect is Read that uses no read-ahead and causes none (O_DIRECT): what was not written here is
// asked of the server, which places it into p.
func (h *Handle) ReadDirect(ctx context.Context, cred Cred, p []byte, off int64) (n int, eof bool, err error) {
	for n < len(p) && !eof && err == nil {
		var k int
		k, eof, err = h.file.engine.srv.Read(ctx, h.file.fh, cred, p[n:], uint64(off)+uint64(n))
		n += k
	}
	return n, eof, err
}

// Write writes p at off. With nfs3.Unstable it returns when p has been copied to memory
// of the Engine, which it may have to wait for; with DataSync (O_DSYNC) and FileSync
// (O_SYNC) when the data is stable. After ENOSPC, EDQUOT and EFBIG it waits for the server's answer
// until a WRITE has succeeded. n counts the bytes accepted, which are written even when
// ctx has ended the wait.
func (h *Handle) Write(ctx context.Context, cred Cred, p []byte, off int64, how nfs3.StableHow) (n int, err error) {
	return h.WriteDirect(ctx, cred, p, off)
}

// WriteDirect writes p with no copy and returns when it is stable (O_DIRECT). Data written before to
// the same range goes first. When ctx ends it, p may have been written in part.
func (h *Handle) WriteDirect(ctx context.Context, cred Cred, p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, _, _, err = h.file.engine.srv.Write(ctx, h.file.fh, cred, p[n:], uint64(off)+uint64(n), nfs3.FileSync)
		n += k
	}
	return n, err
}

// Sync makes all that was written to the file before it stable, through whichever
// Handle (fsync).
func (h *Handle) Sync(ctx context.Context) error { return ctx.Err() }

// Flush is Sync for close(2), which may come more than once for a Handle (dup, fork).
func (h *Handle) Flush(ctx context.Context) error { return h.Sync(ctx) }

// Close ends the use of the Handle. It does not wait: data that was not flushed is
// written in the background. The error is one that the Handle was not told of yet.
func (h *Handle) Close() error {
	h.file.Release()
	return nil
}
