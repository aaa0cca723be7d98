// Segments that end where a test chooses.

package tap

import (
	"net"
	"time"
)

// pause is long enough for a peer to have read the preceding bytes.
const pause = 50 * time.Millisecond

// Split lets at choose, for each FPDU in one direction, the number of its first bytes to send in a
// separate segment. The other bytes follow some time later; 0 sends all bytes together. Split
// applies to connections made after the call, and replaces an earlier choice.
func (t *Tap) Split(d Direction, at func(fpdu []byte) int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.split[d] = at
}

// splitter writes whole units to one peer. No segment ends inside a unit that fits in one segment,
// unless at chooses so.
type splitter struct {
	write func(record []byte) error // TCP starts a new segment after each record
	mss   int                       // bytes of a full segment
	at    func(fpdu []byte) int
	units framer
}

func (t *Tap) splitter(to net.Conn, d Direction) *splitter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &splitter{write: records(to), mss: connMSS(to), at: t.split[d]}
}

func (s *splitter) Write(b []byte) (int, error) {
	s.units.add(b)
	if s.at == nil {
		return len(b), s.pass()
	}
	for {
		startup := !s.units.mpa
		u := s.units.next()
		if u == nil {
			return len(b), nil
		}
		if err := s.unit(u, startup); err != nil {
			return 0, err
		}
	}
}

// pass writes the complete units. A record is one unit, or several units, of which all but the last
// fill their segment.
func (s *splitter) pass() error {
	rest := s.units.pending
	n := 0
	for {
		u := s.units.next()
		n += len(u)
		if len(u) == s.mss {
			continue
		}
		if err := s.write(rest[:n]); err != nil {
			return err
		}
		if u == nil {
			return nil
		}
		rest, n = rest[n:], 0
	}
}

func (s *splitter) unit(u []byte, startup bool) error {
	n := 0
	if !startup {
		n = s.at(u)
	}
	if n > 0 && n < len(u) {
		time.Sleep(pause) // ends the segment with the preceding bytes
		if err := s.write(u[:n]); err != nil {
			return err
		}
		time.Sleep(pause)
		u = u[n:]
	}
	return s.write(u)
}

// flush writes the bytes of an incomplete unit.
func (s *splitter) flush() { s.write(s.units.rest()) }
