// Segments that end where a test wants them to.

package tap

import (
	"net"
	"time"
)

// pause is long enough for a peer to have taken what came before it.
const pause = 50 * time.Millisecond

// Split lets at choose, for each FPDU in one direction, how many of its bytes go ahead
// in a segment of their own, some time before the others; 0 is all at once. It acts on
// connections that are made after the call, and replaces an earlier choice.
func (t *Tap) Split(d Direction, at func(fpdu []byte) int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.split[d] = at
}

// splitter writes to one peer: whole units, as the other peer wrote them, so that no
// segment ends inside an FPDU only because a buffer here was full.
type splitter struct {
	to    net.Conn
	at    func(fpdu []byte) int
	units framer
}

func (t *Tap) splitter(to net.Conn, d Direction) *splitter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &splitter{to: to, at: t.split[d]}
}

func (s *splitter) Write(b []byte) (int, error) {
	s.units.add(b)
	if s.at == nil {
		_, err := s.to.Write(s.units.whole())
		return len(b), err
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

func (s *splitter) unit(u []byte, startup bool) error {
	n := 0
	if !startup {
		n = s.at(u)
	}
	if n > 0 && n < len(u) {
		time.Sleep(pause) // what went before is not to share a segment with it
		if _, err := s.to.Write(u[:n]); err != nil {
			return err
		}
		time.Sleep(pause)
		u = u[n:]
	}
	_, err := s.to.Write(u)
	return err
}

// flush writes what was held back of a unit that did not become whole.
func (s *splitter) flush() { s.to.Write(s.units.rest()) }
