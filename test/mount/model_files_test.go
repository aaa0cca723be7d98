// The model's operations on files that stay open, also after their names are gone.

package mount

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
)

// openMost is how many files the model has open at once.
const openMost = 8

// descriptor does one operation on an open file, or opens one.
func (m *model) descriptor(p string) error {
	if len(m.open) == 0 || len(m.open) < openMost && m.rnd.IntN(4) == 0 {
		return m.openFile(p)
	}
	i := m.rnd.IntN(len(m.open))
	fd := m.open[i]
	name := fmt.Sprintf("%d (%s) ", fd, m.names[fd])
	switch n := m.rnd.IntN(10); {
	case n < 3:
		b, off := m.data(), m.size()
		return m.call(fmt.Sprintf("pwrite %s %d at %d", name, len(b), off), func(s *modelSide) error {
			_, err := s.files[fd].WriteAt(b, off)
			return err
		})
	case n < 6:
		size, off := m.size(), m.size()
		return m.both(fmt.Sprintf("pread %s %d at %d", name, size, off), func(s *modelSide) string {
			b := make([]byte, size)
			n, err := s.files[fd].ReadAt(b, off)
			return fmt.Sprintf("%d %x %s", n, sha256.Sum256(b[:n]), errName(err))
		})
	case n < 7:
		size := m.size()
		return m.call(fmt.Sprintf("ftruncate %s %d", name, size), func(s *modelSide) error { return s.files[fd].Truncate(size) })
	case n < 8:
		return m.call("fsync "+name, func(s *modelSide) error { return s.files[fd].Sync() })
	case n < 9:
		return m.both("fstat "+name, func(s *modelSide) string {
			st, err := s.files[fd].Stat()
			if err != nil {
				return errName(err)
			}
			return fmt.Sprintf("%v %d", st.Mode(), st.Size())
		})
	default:
		return m.close(i)
	}
}

// openFile opens a path on both sides, and keeps it.
func (m *model) openFile(p string) error {
	how := []int{os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_TRUNC}[m.rnd.IntN(3)]
	fd := m.next
	m.next++
	err := m.both(fmt.Sprintf("open %s flags %#x as %d", p, how, fd), func(s *modelSide) string {
		f, err := os.OpenFile(s.path(p), how, 0o644)
		if err == nil {
			s.files[fd] = f
		}
		return errName(err)
	})
	if err == nil && m.sides[0].files[fd] != nil {
		m.open = append(m.open, fd)
		m.names[fd] = p
	}
	return err
}

// close closes the i-th open file.
func (m *model) close(i int) error {
	fd := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	delete(m.orphan, fd)
	return m.call(fmt.Sprintf("close %d (%s)", fd, m.names[fd]), func(s *modelSide) error {
		f := s.files[fd]
		delete(s.files, fd)
		return f.Close()
	})
}

// lose remembers that the name of open files is about to go. Names that were reached by another
// path, through a link, are not known: settle closes their possible files.
func (m *model) lose(p string) {
	for _, fd := range m.open {
		if base(m.names[fd]) == base(p) {
			m.orphan[fd] = true
		}
	}
}

// settle closes the files whose names are gone: on NFS they have hidden names until then, so that
// their directory is not empty.
func (m *model) settle() {
	for i := len(m.open) - 1; i >= 0; i-- {
		if m.orphan[m.open[i]] || len(m.orphan) > 0 {
			if err := m.close(i); err != nil {
				m.trace = append(m.trace, err.Error())
			}
		}
	}
}

func base(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }
