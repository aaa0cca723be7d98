// Writing a file: UNSTABLE writes, COMMIT and the verifier (RFC 1813 §3.3.7, §3.3.21).

package nfsclient

import (
	"os"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// dirty tracks a File's data that the server has and may still lose. Unstable writes are numbered
// in the order of their replies. Each Sync takes a mark at its start and checks its own COMMIT
// against it. Other Syncs meanwhile do not change its result.
type dirty struct {
	mu       sync.Mutex // guards all
	last     uint64     // number of the last unstable write
	stable   uint64     // a COMMIT has covered the writes up to this one
	lost     uint64     // number of the last write possibly lost by the server
	reported uint64     // number of the last write reported as lost
	verf     nfs3.Verf  // of all writes after stable and lost
}

// A commitMark describes the writes covered by a COMMIT sent now.
type commitMark struct {
	last uint64    // number of the last write covered
	verf nfs3.Verf // verifier of the writes neither stable nor lost
	lost uint64    // number of the last known lost write
	bad  bool      // the loss of lost has not been reported
}

// wrote records the result of a WRITE.
func (d *dirty) wrote(w *Written) {
	if w.Committed == nfs3.FileSync {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending() && d.verf != w.Verf { // the server restarted between two writes
		d.lost = d.last
	}
	d.last++
	d.verf = w.Verf
}

// pending reports whether there are writes neither stable nor lost.
func (d *dirty) pending() bool { return d.last > max(d.stable, d.lost) }

// begin returns the mark for a COMMIT sent now, and whether a COMMIT is needed.
func (d *dirty) begin() (m commitMark, needed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m = commitMark{last: d.last, verf: d.verf, lost: d.lost, bad: d.lost > d.reported}
	return m, m.bad || d.pending()
}

// committed records the verifier of a COMMIT sent after m was taken. It returns ErrLostWrites if
// data covered by m may be lost. Each Sync in progress when a loss is found reports the loss; if
// there is none, the next Sync does.
func (d *dirty) committed(m commitMark, verf nfs3.Verf) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A different verifier means nothing if another COMMIT had covered all of m before the restart.
	covered := verf == m.verf || d.stable >= m.last && d.lost == m.lost
	switch {
	case verf == m.verf:
		d.stable = max(d.stable, m.last)
	case !covered:
		d.lost = max(d.lost, m.last) // the next COMMIT checks the writes after m
	}
	d.reported = max(d.reported, m.last)
	if m.bad || !covered {
		return ErrLostWrites
	}
	return nil
}

// WriteAt writes p at off. p must not change until WriteAt returns. A write up to MaxWrite bytes
// does not allocate.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if f.flag&os.O_APPEND != 0 {
		return 0, pathError("write", f.name, os.ErrInvalid)
	}
	return f.writeAt(p, off)
}

// writeAt is WriteAt that also serves files with O_APPEND.
func (f *File) writeAt(p []byte, off int64) (int, error) {
	if err := f.usable(off, true); err != nil {
		return 0, pathError("write", f.name, err)
	}
	var n int
	var err error
	if len(p) <= f.fs.size.wtmax {
		n, err = f.writePiece(p, off)
	} else {
		n, err = f.pieces(p, off, f.fs.size.wtmax, f.writePiece)
	}
	return n, pathError("write", f.name, err)
}

// writePiece writes all of p, with more WRITEs after short replies.
func (f *File) writePiece(p []byte, off int64) (int, error) {
	how := nfs3.Unstable
	if f.flag&os.O_SYNC != 0 {
		how = nfs3.FileSync
	}
	n := 0
	for n < len(p) {
		w, err := f.fs.c.Write(f.ctx, f.fh, p[n:], uint64(off)+uint64(n), how)
		if err != nil {
			return n, err
		}
		f.dirty.wrote(&w)
		n += w.N
	}
	return n, nil
}

// Sync commits written data to the server's stable storage. ErrLostWrites means that the server
// restarted in between: write everything again since the last successful Sync.
func (f *File) Sync() error { return f.sync("sync") }

// sync sends a COMMIT if needed; op is for the error.
func (f *File) sync(op string) error {
	m, needed := f.dirty.begin()
	if !needed {
		return nil
	}
	verf, err := f.fs.c.Commit(f.ctx, f.fh, 0, 0)
	if err == nil {
		err = f.dirty.committed(m, verf)
	}
	return pathError(op, f.name, err)
}
