// Whole files in order: WriteTo reads ahead, ReadFrom writes several pieces at once.

package nfsclient

import (
	"io"
	"os"
)

// streamWindow is the number of pieces in flight for a stream.
const streamWindow = 4

// A streamPiece is one buffer of a stream in flight.
type streamPiece struct {
	buf  []byte
	n    int
	err  error
	done chan struct{}
}

// newPieces allocates streamWindow buffers with size bytes each.
func newPieces(size int) []*streamPiece {
	ring := make([]*streamPiece, streamWindow)
	for i := range ring {
		ring[i] = &streamPiece{buf: make([]byte, size)}
	}
	return ring
}

// start runs do in a goroutine; wait or p.done reports its end.
func (p *streamPiece) start(do func()) {
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		do()
	}()
}

// wait waits for the started function and returns its error.
func (p *streamPiece) wait() error {
	if p.done == nil {
		return nil
	}
	<-p.done
	p.done = nil
	return p.err
}

// WriteTo writes the file from the position on to w, with read-ahead; io.Copy uses it.
func (f *File) WriteTo(w io.Writer) (total int64, err error) {
	f.posMu.Lock()
	defer f.posMu.Unlock()
	ring := newPieces(f.fs.size.rtmax)
	off := f.pos
	// Offsets assume full READs. A short piece is the last one, because ReadAt continues until its
	// buffer is full or the file ends.
	fetch := func(p *streamPiece) {
		at := off
		off += int64(len(p.buf))
		p.start(func() { p.n, p.err = f.ReadAt(p.buf, at) })
	}
	for _, p := range ring {
		fetch(p)
	}
	defer func() {
		for _, p := range ring {
			<-p.done // wait for each piece, because it uses its buffer until then
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

// ReadFrom writes the data of r at the position, several pieces at once; io.Copy uses it. The data
// is stable after Sync or Close. Like io.Copy it returns the bytes read from r, and any error of r
// except io.EOF.
func (f *File) ReadFrom(r io.Reader) (total int64, err error) {
	if f.flag&os.O_APPEND != 0 { // each Write asks for the file's end
		return io.Copy(struct{ io.Writer }{f}, r)
	}
	f.posMu.Lock()
	defer f.posMu.Unlock()
	ring := newPieces(f.fs.size.wtmax)
	start := f.pos
	for i := 0; err == nil; i = (i + 1) % len(ring) {
		p := ring[i]
		// Wait for the oldest piece before its buffer is reused. After a failed piece, later pieces
		// may be written; the result counts the bytes read from r.
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

// maxEmptyReads bounds reads without data and without an error.
const maxEmptyReads = 100

// readFull reads from r until p is full. It returns r's own error. io.ReadFull turns an end within
// p into io.ErrUnexpectedEOF, which r itself may report for truncated input.
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

// isEnd reports whether err is io.EOF itself. A wrapped io.EOF means the end of something else,
// such as a connection.
func isEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // only io.EOF itself is the end
}
