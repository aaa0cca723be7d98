// Accept: the ends of its wait, and listeners that end or fail below us.

package iwarp

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// A scriptListener accepts connections, or fails with errors, as the test passes them.
type scriptListener struct {
	next chan any // net.Conn or error
	done chan struct{}
}

func newScriptListener() *scriptListener {
	return &scriptListener{next: make(chan any, 8), done: make(chan struct{})}
}

func (l *scriptListener) Accept() (net.Conn, error) {
	select {
	case v := <-l.next:
		if c, ok := v.(net.Conn); ok {
			return c, nil
		}
		return nil, v.(error)
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *scriptListener) Close() error   { close(l.done); return nil }
func (l *scriptListener) Addr() net.Addr { return &net.TCPAddr{} }

// caller sends a Request over a new connection of l.
func (l *scriptListener) caller() {
	ours, theirs := net.Pipe()
	l.next <- theirs
	go func() {
		ours.Write(mpa.AppendFrame(nil, &mpa.Frame{Rev: mpa.Rev2, HasEnhanced: true}))
		io.Copy(io.Discard, ours)
	}()
}

func TestAcceptEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newScriptListener()
		l := Open(rnic.DeviceConfig{}).ListenOn(below)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := l.Accept(ctx)
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("cancelled: %v", err)
		}
		below.caller()
		synctest.Wait()
		if _, err := l.Accept(ctx); err != context.Canceled {
			t.Errorf("a context that had ended before: %v", err)
		}
		r, err := l.Accept(t.Context()) // the request was not lost to the waits that ended
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		r.Reject(nil)
		l.Close()
		if _, err := l.Accept(t.Context()); err != rnic.ErrClosed {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestListenerThatEndsByItself: earlier connections are served, then Accept returns the cause.
func TestListenerThatEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newScriptListener()
		l := Open(rnic.DeviceConfig{}).ListenOn(below)
		gone := errors.New("the interface is gone")
		below.caller()
		below.next <- gone
		synctest.Wait()
		r, err := l.Accept(t.Context())
		if err != nil {
			t.Fatalf("the request that came before the end: %v", err)
		}
		r.Reject(nil)
		for range 2 {
			if _, err := l.Accept(t.Context()); !errors.Is(err, gone) {
				t.Errorf("after the end: %v", err)
			}
		}
		l.Close()
		if _, err := l.Accept(t.Context()); !errors.Is(err, gone) {
			t.Errorf("after Close: %v, the first cause is lost", err)
		}
	})
}

// TestAcceptGoesOnAfterPassingErrors: a lack of descriptors or memory does not end the listener.
func TestAcceptGoesOnAfterPassingErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := newScriptListener()
		l := Open(rnic.DeviceConfig{}).ListenOn(below)
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
			below.next <- &net.OpError{Op: "accept", Err: errno}
		}
		below.caller()
		r, err := l.Accept(t.Context())
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		r.Reject(nil)
		l.Close()
	})
}
