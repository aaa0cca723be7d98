// Every way in which a QP ends while a caller receives, and while the receive loop is parked.

package iwarp

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// A blocking is a connection with the methods of a net.Conn only.
type blocking struct{ net.Conn }

// TestDriveEnds: within two ticks the caller returns and the QP ends, with its cause. None of its
// goroutines runs after Close.
func TestDriveEnds(t *testing.T) {
	aborted := errors.New("aborted")
	for _, how := range []struct {
		name  string
		peers bool // the peer ends the QP
		do    func(d *driven)
		want  error
	}{
		{"Abort", false, func(d *driven) { d.qp.Abort(aborted) }, aborted},
		{"Close", false, func(d *driven) { d.qp.Close() }, rnic.ErrClosed},
		{"Disconnect", false, func(d *driven) {
			go func() { d.hearULPDUs(); d.theirs.Close() }()
			d.qp.Disconnect(d.t.Context())
		}, nil},
		{"FIN", true, func(d *driven) { d.theirs.Close() }, io.EOF},
		{"Terminate", true, func(d *driven) {
			d.fpdu(terminate(0x20, 5, 0, nil))
			d.theirs.Close()
		}, &term.PeerError{}},
		{"fault of the peer's", true, func(d *driven) {
			d.fpdu(untagged(0x41, 0x43, 0, 0, 9, 0, nil))
			synctest.Wait()
			d.theirs.Close()
		}, term.New(term.DDPMSNRange, "")},
		{"Abort after a fault", false, func(d *driven) {
			streamOf(d.qp).fail(aborted)
			d.qp.Abort(rnic.ErrClosed)
		}, aborted},
	} {
		for _, driving := range []bool{false, true} {
			name := how.name + " at rest"
			if driving {
				name = how.name + " while driving"
			}
			t.Run(name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, d *driven) {
					var took <-chan time.Duration
					if driving {
						took = d.begin()
					} else {
						d.rest()
					}
					start := time.Now()
					how.do(d)
					<-d.qp.Done()
					d.qp.Close()
					limit := time.Duration(0) // an end on this side needs no tick
					if how.peers {
						limit = 2 * parkTick
					}
					if e := time.Since(start); e > limit {
						t.Errorf("ends after %v, want %v at most", e, limit)
					}
					if r := d.owner(); r != ownerLoop {
						t.Errorf("owner %d after the end, want %d", r, ownerLoop)
					}
					if driving && <-took > 2*parkTick {
						t.Error("the caller stays for more than two ticks")
					}
					d.wantCause(how.want)
					d.qp.PollUntil(func() bool { return false }) // at once: reading has ended
				})
			})
		}
	}
}

// wantCause demands the cause of the end, or one of its kind.
func (d *driven) wantCause(want error) {
	d.t.Helper()
	var peer *term.PeerError
	if _, ok := want.(*term.PeerError); ok && errors.As(d.qp.Err(), &peer) {
		return
	}
	if err := d.qp.Err(); err != want && !errors.Is(err, want) {
		d.t.Errorf("ended by %v, want %v", err, want)
	}
}

// hearULPDUs reads and discards up to the end of the stream.
func (d *driven) hearULPDUs() { io.Copy(io.Discard, d.theirs) }

// TestFINAtRest: a parked receive loop notices the end of the stream within a tick.
func TestFINAtRest(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		start := time.Now()
		d.theirs.Close()
		<-d.qp.Done()
		if e := time.Since(start); e > parkTick || d.qp.Err() != io.EOF {
			t.Errorf("ended after %v by %v, want %v at most, and %v", e, d.qp.Err(), parkTick, io.EOF)
		}
	})
}

// TestReasonAtRest: after a failed Send a parked receive loop reads the peer's reason at once.
func TestReasonAtRest(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		start := time.Now()
		d.fpdu(terminate(0x20, 5, 0, nil))
		d.theirs.Close()
		d.qp.PostSend(rnic.SendWR{Op: rnic.OpSend})
		<-d.qp.Done()
		if time.Since(start) > 0 {
			t.Errorf("ended after %v, want at once", time.Since(start))
		}
		d.wantCause(&term.PeerError{})
	})
}

// TestAbortByDriver: a handler may end the QP even if a caller's goroutine runs the handler.
func TestAbortByDriver(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		cause := errors.New("cause")
		took := d.begin()
		d.onHandle = func() { d.qp.Abort(cause) }
		d.asked.Add(1) // so that the caller would continue
		d.answer()
		<-took
		<-d.qp.Done()
		d.qp.Close()
		d.wantCause(cause)
	})
}

// TestEndWhileRecalled: the end of the QP sets deadlines, and so does a recall. Neither cancels the
// other's effect for long.
func TestEndWhileRecalled(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		took := d.begin()
		time.Sleep(2*parkTick - 1) // about to be recalled
		streamOf(d.qp).fail(errors.New("first"))
		if e := <-took; e > 4*parkTick { // one more each time the end's deadline replaces the recall's
			t.Errorf("the caller stays for %v, want %v at most", e, 4*parkTick)
		}
		start := time.Now()
		d.qp.Close()
		if time.Since(start) > graceTime {
			t.Errorf("Close took %v, want %v at most", time.Since(start), graceTime)
		}
	})
}
