// A worker's steps on a file's data.

package several

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

const page = 4096

// write runs a step that changes a file's bytes.
func (w *Worker) write(fd int, s Step) Outcome {
	data := bytes.Repeat([]byte{byte(s.Val)}, int(s.N))
	switch s.Op {
	case PWrite:
		return w.whole(unix.Pwrite(fd, data, s.Off))
	case Append:
		return w.whole(unix.Write(fd, data))
	case SeekWrite:
		at, err := unix.Seek(fd, 0, unix.SEEK_END)
		if err != nil {
			return w.outcome(0, err)
		}
		o := w.whole(unix.Write(fd, data))
		if o.Err == "" && o.N == s.N {
			o.N = at
		}
		return o
	case Store:
		first := s.Off &^ (page - 1)
		m, err := unix.Mmap(fd, first, int(s.Off-first+s.N), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return w.outcome(0, err)
		}
		defer unix.Munmap(m)
		copy(m[s.Off-first:], data)
		return w.outcome(s.N, unix.Msync(m, unix.MS_SYNC))
	}
	from, to, done := s.Off, s.ToOff, int64(0)
	for done < s.N {
		n, err := unix.CopyFileRange(fd, &from, w.files[s.ToFd], &to, int(s.N-done), 0)
		if err != nil {
			return w.outcome(0, err)
		}
		if n == 0 {
			break
		}
		done += int64(n)
	}
	return Outcome{N: done}
}

// whole returns the outcome of a write.
func (w *Worker) whole(n int, err error) Outcome { return w.outcome(int64(n), err) }

// read runs a step that sees a file's bytes.
func (w *Worker) read(fd int, s Step) Outcome {
	buf := make([]byte, s.N)
	n, err := 0, error(nil)
	switch s.Op {
	case Read:
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			return w.outcome(0, err)
		}
		n, err = all(buf, func(b []byte) (int, error) { return unix.Read(fd, b) })
	case PRead:
		n, err = unix.Pread(fd, buf, s.Off)
	case Map:
		first := s.Off &^ (page - 1)
		m, err := unix.Mmap(fd, first, int(s.Off-first+s.N), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return w.outcome(0, err)
		}
		defer unix.Munmap(m)
		n = copy(buf, m[s.Off-first:])
	case SendFile, Splice:
		buf, err = w.through(fd, s)
		n = len(buf)
	default:
		err = fmt.Errorf("there is no step %q", s.Op)
	}
	o := w.outcome(0, err)
	if err == nil {
		o.Data = buf[:n]
	}
	return o
}

// all reads until the file's end or until the buffer is full.
func all(buf []byte, read func([]byte) (int, error)) (n int, err error) {
	for n < len(buf) {
		k, err := read(buf[n:min(n+10000, len(buf))])
		if err != nil {
			return n, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return n, nil
}

// through makes the kernel move bytes to a pipe, and reads the bytes from the pipe.
func (w *Worker) through(fd int, s Step) (data []byte, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	data = []byte{}
	for off, buf := s.Off, make([]byte, 16*page); int64(len(data)) < s.N; {
		n, most := 0, min(8*page, int(s.N)-len(data))
		if s.Op == SendFile {
			n, err = unix.Sendfile(p[1], fd, &off, most)
		} else {
			var k int64
			k, err = unix.Splice(fd, &off, p[1], nil, most, 0)
			n = int(k)
		}
		if err != nil || n == 0 {
			return data, err
		}
		for n > 0 {
			k, err := unix.Read(p[0], buf[:min(n, len(buf))])
			if err != nil {
				return data, err
			}
			data = append(data, buf[:k]...)
			n -= k
		}
	}
	return data, nil
}

const aclName = "system.posix_acl_access"

// aclOf returns an ACL that lets one more user read, in the kernel's attribute format: version 2,
// then tag, permissions and number of each entry.
func aclOf(user int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{0x01, 6, ^uint32(0)}, {0x02, 4, uint32(user)}, {0x04, 4, ^uint32(0)}, {0x10, 4, ^uint32(0)}, {0x20, 4, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return b
}

// getACL returns the user in an ACL.
func (w *Worker) getACL(fd int) Outcome {
	buf := make([]byte, 1024)
	n, err := unix.Fgetxattr(fd, aclName, buf)
	if err == unix.ENODATA {
		return Outcome{}
	}
	if err != nil {
		return w.outcome(0, err)
	}
	for b := buf[4:n]; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint16(b) == 0x02 {
			return Outcome{ACL: int(binary.LittleEndian.Uint32(b[4:]))}
		}
	}
	return Outcome{}
}
