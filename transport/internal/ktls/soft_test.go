// A socket with TLS in user space, in the place of the kernel's.

package ktls

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A softSocket does the kernel's work on a TCP connection. It understands the kernel's structures,
// so a wrong field breaks the connection.
type softSocket struct {
	*net.TCPConn
	t       testing.TB
	keys    map[direction]*directionKey
	set     map[direction]int
	noRekey bool                  // as before Linux 6.14
	refuses map[direction]error   // results of setKey
	absent  error                 // the result of enable
	held    []byte                // content of a record that was read in part
	control *struct{ kind byte }  // the held record is no application data
	wrote   func(recordType byte) // called for each record that is written
}

func newSoftSocket(t testing.TB, c *net.TCPConn) *softSocket {
	return &softSocket{TCPConn: c, t: t, keys: map[direction]*directionKey{}, set: map[direction]int{}, refuses: map[direction]error{}}
}

func (s *softSocket) enable() error { return s.absent }

func (s *softSocket) setKey(d direction, info []byte) error {
	if err := s.refuses[d]; err != nil {
		return err
	}
	if s.set[d]++; s.set[d] > 1 && s.noRekey {
		return syscall.EBUSY
	}
	s.keys[d] = parseInfo(s.t, info)
	return nil
}

func (s *softSocket) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		part := p[n:min(n+maxPlaintext, len(p))]
		if err := s.writeRecord(typeData, part, true); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

func (s *softSocket) writeBuffers(b *net.Buffers) (int64, error) { return b.WriteTo(writerOnly{s}) }

type writerOnly struct{ io.Writer }

func (s *softSocket) writeRecord(recordType byte, p []byte, _ bool) error {
	if s.wrote != nil {
		s.wrote(recordType)
	}
	_, err := s.TCPConn.Write(s.keys[sending].seal(recordType, p))
	return err
}

// next reads a record if none is held.
func (s *softSocket) next() error {
	for len(s.held) == 0 && s.control == nil {
		record := make([]byte, headerLength)
		if _, err := io.ReadFull(s.TCPConn, record); err != nil {
			return err
		}
		record = append(record, make([]byte, binary.BigEndian.Uint16(record[3:]))...)
		if _, err := io.ReadFull(s.TCPConn, record[headerLength:]); err != nil {
			return err
		}
		plain, err := s.keys[receiving].open(record)
		if err != nil {
			return &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.EBADMSG)}
		}
		for len(plain) > 0 && plain[len(plain)-1] == 0 {
			plain = plain[:len(plain)-1]
		}
		must.Equal(s.t, "a record has a type", len(plain) > 0, true)
		end := len(plain) - 1
		s.held = plain[:end]
		if kind := plain[end]; kind != typeData {
			s.control = &struct{ kind byte }{kind}
		}
	}
	return nil
}

func (s *softSocket) Read(p []byte) (int, error) {
	if err := s.next(); err != nil {
		return 0, err
	}
	if s.control != nil {
		return 0, &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.EIO)}
	}
	n := copy(p, s.held)
	s.held = s.held[n:]
	return n, nil
}

func (s *softSocket) readRecord(p []byte) (int, byte, error) {
	if err := s.next(); err != nil {
		return 0, 0, err
	}
	n, kind := copy(p, s.held), byte(typeData)
	s.held = s.held[n:]
	if s.control != nil {
		kind = s.control.kind
		s.control = nil
	}
	return n, kind, nil
}
