// Writing a file: UNSTABLE writes, COMMIT, and what the verifier tells (RFC 1813 §3.3.7, §3.3.21).

package nfsclient

import (
	"os"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// dirty is what a File knows of data that the server has and may still lose.
type dirty struct {
	mu   sync.Mutex // guards all
	any  bool       // there is unstable data
	lost bool       // the verifier changed under it
	verf nfs3.Verf  // of the last unstable write
	gen  uint64     // counts unstable writes
}

// wrote takes note of the result of a WRITE.
func (d *dirty) wrote(w *Written) {
	if w.Committed == nfs3.FileSync {
		return
	}
	d.mu.Lock()
	if d.any && d.verf != w.Verf {
		d.lost = true
	}
	d.any, d.verf = true, w.Verf
	d.gen++
	d.mu.Unlock()
}

// begin returns which writes a COMMIT sent now will cover, and whether it is needed.
func (d *dirty) begin() (gen uint64, needed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gen, d.any
}

// committed takes note of a COMMIT that was sent when gen stood, and says
// whether the data is safe. What is lost is reported once.
func (d *dirty) committed(gen uint64, verf nfs3.Verf) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost := d.lost || d.any && d.verf != verf
	d.lost = false
	if d.gen == gen {
		d.any = false
	} else if lost {
		d.verf = verf // the later writes are judged by the next COMMIT
	}
	if lost {
		return ErrLostWrites
	}
	return nil
}

// WriteAt writes p at off. p must stay as it is until WriteAt has returned. A
// write of at most MaxWrite octets does not allocate.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if f.flag&os.O_APPEND != 0 {
		return 0, pathError("write", f.name, os.ErrInvalid)
	}
	return f.writeAt(p, off)
}

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

// writePiece writes all of p, with as many WRITEs as the server makes necessary.
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

// Sync brings what was written to the server's stable storage. ErrLostWrites
// means that the server restarted in between: all that was written since the
// last Sync that succeeded must be written again.
func (f *File) Sync() error { return f.sync("sync") }

func (f *File) sync(op string) error {
	gen, needed := f.dirty.begin()
	if !needed {
		return nil
	}
	verf, err := f.fs.c.Commit(f.ctx, f.fh, 0, 0)
	if err == nil {
		err = f.dirty.committed(gen, verf)
	}
	return pathError(op, f.name, err)
}
