// Keytab files (MIT's format, version 2).

package krb5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// maxFile limits keytabs and credential caches, in bytes.
const maxFile = 4 << 20

// A KeytabEntry is one key in a keytab.
type KeytabEntry struct {
	Principal string
	Version   uint32 // kvno
	Enctype   int32
	Time      time.Time // when the key was created

	name  name
	value []byte
}

// ReadKeytab reads all entries in a keytab file, also those with unsupported encryption types.
func ReadKeytab(path string) ([]KeytabEntry, error) {
	b, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("krb5: keytab: %w", err)
	}
	entries, err := parseKeytab(b)
	if err != nil {
		return nil, fmt.Errorf("krb5: keytab %s: %w", path, err)
	}
	return entries, nil
}

// readFile is os.ReadFile with a limit.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f)
}

func readLimited(f *os.File) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), maxFile)
	}
	return b, err
}

var errKeytab = errors.New("not a keytab of version 2, or damaged")

// parseKeytab decodes a file: a version, then records with a signed length. A negative length means
// a hole.
func parseKeytab(b []byte) ([]KeytabEntry, error) {
	if len(b) < 2 || b[0] != 5 || b[1] != 2 {
		return nil, errKeytab
	}
	var entries []KeytabEntry
	for b = b[2:]; len(b) >= 4; {
		n := int(int32(binary.BigEndian.Uint32(b)))
		b = b[4:]
		if n == 0 {
			break // the rest is unused
		}
		size := max(n, -n)
		if size > len(b) {
			return nil, errKeytab
		}
		if n > 0 {
			e, ok := parseKeytabEntry(b[:size])
			if !ok {
				return nil, errKeytab
			}
			entries = append(entries, e)
		}
		b = b[size:]
	}
	return entries, nil
}

func parseKeytabEntry(b []byte) (e KeytabEntry, ok bool) {
	s := scanner{b: b, ok: true}
	n := int(s.uint16())
	e.name.realm = string(s.counted16())
	if n > maxComponents {
		return e, false
	}
	for range n {
		e.name.parts = append(e.name.parts, string(s.counted16()))
	}
	e.name.kind = int32(s.uint32())
	e.Time = time.Unix(int64(s.uint32()), 0)
	e.Version = uint32(s.byte())
	e.Enctype = int32(s.uint16())
	e.value = s.counted16()
	if s.ok && len(s.b) >= 4 { // the whole version number, if it is there
		if v := s.uint32(); v != 0 {
			e.Version = v
		}
	}
	e.Principal = e.name.String()
	return e, s.ok
}

// A scanner reads big-endian numbers and counted bytes. After the end it returns zeros, and ok is
// false.
type scanner struct {
	b  []byte
	ok bool
}

func (s *scanner) take(n int) []byte {
	if n < 0 || n > len(s.b) {
		s.ok, s.b = false, nil
		return nil
	}
	out := s.b[:n:n]
	s.b = s.b[n:]
	return out
}

func (s *scanner) byte() byte {
	if b := s.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (s *scanner) uint16() uint16 {
	if b := s.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (s *scanner) uint32() uint32 {
	if b := s.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scanner) counted16() []byte { return s.take(int(s.uint16())) }
func (s *scanner) counted32() []byte { return s.take(int(s.uint32())) }
