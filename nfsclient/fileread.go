// Reading a file: any length, in pieces within the server's limit, several at once.

package nfsclient

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
)

// pieceWindow is the number of pieces in flight for one ReadAt or WriteAt.
const pieceWindow = 8

// A closedFlag is set once.
type closedFlag struct{ v atomic.Bool }

func (c *closedFlag) set() bool { return c.v.CompareAndSwap(false, true) }

// usable makes the checks common to all calls on an open file.
func (f *File) usable(off int64, write bool) error {
	mode := f.flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	switch {
	case f.closed.v.Load():
		return fs.ErrClosed
	case off < 0:
		return fs.ErrInvalid
	case write && mode == os.O_RDONLY, !write && mode == os.O_WRONLY:
		return fs.ErrPermission
	}
	return nil
}

// ReadAt reads len(p) bytes from off on, or fewer with io.EOF at the end of the file. Data is
// placed directly into p, which the File owns until ReadAt returns. A read up to MaxRead bytes does
// not allocate.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.usable(off, false); err != nil {
		return 0, pathError("read", f.name, err)
	}
	var n int
	var err error
	if len(p) <= f.fs.size.rtmax {
		n, err = f.readPiece(p, off)
	} else {
		n, err = f.pieces(p, off, f.fs.size.rtmax, f.readPiece)
	}
	if !isEnd(err) {
		err = pathError("read", f.name, err)
	}
	return n, err
}

// readPiece fills p, with more READs after short replies. It returns io.EOF if the file ends before
// p is full.
func (f *File) readPiece(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		k, eof, err := f.fs.c.Read(f.ctx, f.fh, p[n:], uint64(off)+uint64(n))
		n += k
		switch {
		case err != nil:
			return n, err
		case n < len(p) && eof:
			return n, io.EOF
		case k == 0:
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

// pieces cuts p into pieces of size bytes and calls do for each, several at once. It returns the
// bytes done from the start without a gap, and the error at that point.
func (f *File) pieces(p []byte, off int64, size int, do func([]byte, int64) (int, error)) (int, error) {
	count := (len(p) + size - 1) / size
	var (
		wg   sync.WaitGroup
		next atomic.Int64 // the first piece not begun
		mu   sync.Mutex   // guards done, err
		done = len(p)     // bytes before the first failed piece
		err  error        // error of the first failed piece
	)
	run := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= count {
				return
			}
			at := i * size
			n, e := do(p[at:min(at+size, len(p))], off+int64(at))
			if e == nil {
				continue
			}
			next.Store(int64(count)) // begin no more pieces: later ones are useless
			mu.Lock()
			if at+n < done || err == nil {
				done, err = at+n, e
			}
			mu.Unlock()
		}
	}
	for range min(pieceWindow, count) - 1 {
		wg.Go(run)
	}
	run()
	wg.Wait()
	return done, err
}
