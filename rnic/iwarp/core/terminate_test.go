// Terminates from the peer, good and malformed.

package core

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestTerminateReceived: a Terminate is reported to the ULP, and not answered (RFC 5040 §6.2.1
// [R5040-181], RFC 5040 §3.2 [R5040-017]).
func TestTerminateReceived(t *testing.T) {
	conformance.Proves(t, "R5040-017", "R5040-137", "R5040-138", "R5040-140", "R5040-177", "R5040-181")
	s := scriptInitiator(t, rnic.ConnParams{})
	recv(t, s.qp, 1, nil)
	s.open()
	s.fpdu(terminate(0x11, 2, 0, nil))
	s.want(t, rnic.OpRecv, 1, rnic.WCFlushErr)
	s.wantEOF()
	s.c.Close()
	s.wantEnd(t, &term.PeerError{Code: term.DDPSTagNotOfStream})
}

// TestBadTerminate: a malformed Terminate ends the stream without an answer (RFC 5040 §7.1
// [R5040-188]).
func TestBadTerminate(t *testing.T) {
	conformance.Proves(t, "R5040-141", "R5040-184")
	for _, u := range [][]byte{untagged(0x41, 0x47, 0, 2, 2, 0, make([]byte, 4)),
		untagged(0x41, 0x47, 0, 2, 1, 0, make([]byte, 3)), untagged(0x01, 0x47, 0, 2, 1, 0, make([]byte, 4)),
		untagged(0x41, 0x47, 0, 0, 1, 0, make([]byte, 4)), untagged(0x41, 0x47, 0, 2, 1, 4, make([]byte, 4)), tagged(0xc1, 0x47, 0, 0, nil)} {
		s := scriptInitiator(t, rnic.ConnParams{})
		s.open()
		s.fpdu(u)
		s.wantEOF()
		s.c.Close()
		<-s.qp.Done()
		var told *term.PeerError
		if err := s.qp.Err(); err == nil || errors.As(err, &told) {
			t.Errorf("%x: %v, want an error found here", u, err)
		}
		if s.qp.State() == rnic.StateRTS {
			t.Errorf("%x: the stream continues", u)
		}
	}
}
