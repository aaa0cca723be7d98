// Whole files in order: WriteTo reads ahead, ReadFrom writes several pieces at once.

package nfsclient

import (
	"io"
	"os"
)

// streamWindow is how many pieces a stream keeps in flight.
const streamWindow = 4

// A piece is one buffer of a stream on its way.
type piece struct {
	buf  []byte
	n    int
	err  error
	done chan struct{}
}

func newPieces(size int) []*piece {
	ring := make([]*piece, streamWindow)
	for i := range ring {
		ring[i] = &piece{buf: make([]byte, size)}
	}
	return ring
}

func (p *piece) start(do func()) {
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		do()
	}()
}

// wait returns the error of what was started, once it has ended.
func (p *piece) wait() error {
	if p.done == nil {
		return nil
	}
	<-p.done
	p.done = nil
	return p.err
}

// WriteTo writes the file from the position on to w, reading ahead; io.Copy uses it.
func (f *File) WriteTo(w io.Writer) (total int64, err error) {
	f.posMu.Lock()
	defer f.posMu.Unlock()
	ring := newPieces(f.fs.size.rtmax)
	off := f.pos
	// Offsets are given out in order, as if each READ returned all that was asked for: one that is
	// short is the last, since ReadAt goes on until its buffer is full or the file ends.
	fetch := func(p *piece) {
		at := off
		off += int64(len(p.buf))
		p.start(func() { p.n, p.err = f.ReadAt(p.buf, at) })
	}
	for _, p := range ring {
		fetch(p)
	}
	defer func() {
		for _, p := range ring {
			<-p.done // buffers are ours again only now
		}
	}()
	for i := 0; ; i = (i + 1) % len(ring) {
		p := ring[i]
		<-p.done
		n, err := w.Write(p.buf[:p.n])
		total += int64(n)
		f.pos += int64(n)
		switch {
		case err != nil:
			return total, err
		case n < p.n:
			return total, io.ErrShortWrite
		case isEnd(p.err):
			return total, nil
		case p.err != nil:
			return total, p.err
		}
		fetch(p)
	}
}

// ReadFrom writes what r gives at the position, several pieces at once; io.Copy
// uses it. The data is stable after Sync or Close. Like io.Copy it returns how
// much was read of r, and any error of r but io.EOF.
func (f *File) ReadFrom(r io.Reader) (total int64, err error) {
	if f.flag&os.O_APPEND != 0 { // each Write finds the end of the file anew
		return io.Copy(struct{ io.Writer }{f}, r)
	}
	f.posMu.Lock()
	defer f.posMu.Unlock()
	ring := newPieces(f.fs.size.wtmax)
	start := f.pos
	for i := 0; err == nil; i = (i + 1) % len(ring) {
		p := ring[i]
		// The oldest piece: its buffer is used again, so its WRITE has to have ended. Pieces after
		// one that failed may have been written; what is counted is what was read of r.
		if err = p.wait(); err != nil {
			break
		}
		p.n, err = readFull(r, p.buf)
		if p.n > 0 {
			at := f.pos
			f.pos += int64(p.n)
			p.start(func() { _, p.err = f.writeAt(p.buf[:p.n], at) })
		}
	}
	if isEnd(err) {
		err = nil
	}
	for _, p := range ring {
		if e := p.wait(); err == nil {
			err = e
		}
	}
	return f.pos - start, err
}

// maxEmptyReads is how often a reader may give neither data nor an error.
const maxEmptyReads = 100

// readFull reads from r until p is full. Its error is r's own: io.ReadFull turns an
// end in the middle of p into io.ErrUnexpectedEOF, which r itself may have to report
// of a source that was cut.
func readFull(r io.Reader, p []byte) (n int, err error) {
	for empty := 0; n < len(p) && err == nil; {
		var k int
		k, err = r.Read(p[n:])
		n += k
		if k > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// isEnd reports whether err is io.EOF itself. An error that wraps one is of something
// else that has ended, as a connection, and not the end of the data.
func isEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // see above
}
