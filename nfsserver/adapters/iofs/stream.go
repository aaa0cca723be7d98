// Files that can only be read from their beginning.

package iofs

import (
	"errors"
	"io"
	"io/fs"

	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/tree"
)

// window is how many bytes before the position stay in memory.
const window = 4 << 20

// A stream reads a file forward. A read before the window opens the file again.
type stream struct {
	tree.ReadOnlyFile
	f    fs.File
	open func() (fs.File, error)

	// The last bytes before the position, which are at start in the file.
	last  []byte
	start int64
}

func (s *stream) Alone() bool { return true }

func (s *stream) Close() error { return s.f.Close() }

func (s *stream) ReadAt(p []byte, off int64) (int, error) {
	if off < s.start {
		f, err := s.open()
		if err != nil {
			return 0, err
		}
		s.f.Close()
		s.f, s.last, s.start = f, s.last[:0], 0
	}
	n := 0
	for n < len(p) {
		at := off + int64(n) - s.start
		if at < int64(len(s.last)) {
			n += copy(p[n:], s.last[at:])
			continue
		}
		if err := s.advance(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// advance reads on. It returns io.EOF at the end.
func (s *stream) advance() error {
	const step = 64 << 10
	if len(s.last) >= 2*window {
		s.start += int64(len(s.last) - window)
		s.last = s.last[:copy(s.last, s.last[len(s.last)-window:])]
	}
	at := len(s.last)
	if cap(s.last)-at < step {
		s.last = append(make([]byte, 0, min(2*cap(s.last)+step, 2*window+step)), s.last...)
	}
	n, err := io.ReadFull(s.f, s.last[at:at+step])
	s.last = s.last[:at+n]
	if n > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // the next call gets io.EOF
	}
	return err
}
