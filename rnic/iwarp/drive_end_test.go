// Every way in which a QP ends while a caller drives it, and while nobody reads.

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

// A blocking is a connection with the calls of any net.Conn alone.
type blocking struct{ net.Conn }

// TestDriveEnds: the driver is back and the QP has ended within two ticks, with its cause; nothing
// of it runs after Close.
func TestDriveEnds(t *testing.T) {
	aborted := errors.New("aborted")
	for _, how := range []struct {
		name  string
		peers bool // it is the peer that ends the QP
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
					limit := time.Duration(0) // what is done here needs no clock
					if how.peers {
						limit = 2 * parkTick
					}
					if e := time.Since(start); e > limit {
						t.Errorf("ends after %v", e)
					}
					if r := d.owner(); r != ownerLoop {
						t.Errorf("owner %d after the end", r)
					}
					if driving && <-took > 2*parkTick {
						t.Error("the driver stays")
					}
					d.wantCause(how.want)
					d.qp.PollUntil(func() bool { return false }) // nobody reads any more
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

// hearULPDUs reads until the end of the stream.
func (d *driven) hearULPDUs() { io.Copy(io.Discard, d.theirs) }

// TestFINAtRest: the end of a stream that rests is seen within the tick.
func TestFINAtRest(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		start := time.Now()
		d.theirs.Close()
		<-d.qp.Done()
		if e := time.Since(start); e > parkTick || d.qp.Err() != io.EOF {
			t.Error(e, d.qp.Err())
		}
	})
}

// TestReasonAtRest: a Send that fails has the peer's reason read at once, though nobody read.
func TestReasonAtRest(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		start := time.Now()
		d.fpdu(terminate(0x20, 5, 0, nil))
		d.theirs.Close()
		d.qp.PostSend(rnic.SendWR{Op: rnic.OpSend})
		<-d.qp.Done()
		if time.Since(start) > 0 {
			t.Error("after ", time.Since(start))
		}
		d.wantCause(&term.PeerError{})
	})
}

// TestAbortByDriver: a handler may end the QP also where a driver runs it.
func TestAbortByDriver(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		cause := errors.New("cause")
		took := d.begin()
		d.onHandle = func() { d.qp.Abort(cause) }
		d.asked.Add(1) // so that it would go on
		d.answer()
		<-took
		<-d.qp.Done()
		d.qp.Close()
		d.wantCause(cause)
	})
}

// TestEndWhileRecalled: the end sets deadlines, and so does a recall; neither stays in the way of
// the other.
func TestEndWhileRecalled(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		took := d.begin()
		time.Sleep(2*parkTick - 1) // about to be recalled
		streamOf(d.qp).fail(errors.New("first"))
		if e := <-took; e > 4*parkTick { // a tick more each time that the deadline of the end has hidden the recall's
			t.Error("the driver stays for ", e)
		}
		start := time.Now()
		d.qp.Close()
		if time.Since(start) > graceTime {
			t.Error("Close took ", time.Since(start))
		}
	})
}
