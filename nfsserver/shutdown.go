// Stopping a server, even if the file systems of some exports do not answer.

package nfsserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// closeWait bounds the time for closing the FSs.
const closeWait = 10 * time.Second

// An exportError reports an export with an unresponsive file system.
type exportError struct {
	name, what string
	cause      error // the reason for the end of the wait, or nil
}

func (e *exportError) Error() string {
	return fmt.Sprintf("export %s: its file system does not answer: %s", e.name, e.what)
}

func (e *exportError) Unwrap() error { return e.cause }

// Shutdown stops accepting calls, lets running calls end until ctx is done, and then closes all
// connections. Afterwards the Server can be closed, or started again. Calls blocked by an
// unresponsive file system are abandoned after some seconds: the error names their exports, and
// Close then leaves those exports open.
func (v *Service) Shutdown(ctx context.Context) error {
	err := v.rpc.Shutdown(ctx)
	v.loops.Wait()
	var stuck *transport.StuckError
	if !errors.As(err, &stuck) {
		return err
	}
	var errs []error
	for _, x := range v.srv.unclosed() {
		// A call that never became busy is in no lane.
		if len(stuck.Lanes) == 0 || slices.Contains(stuck.Lanes, x.name) {
			x.stuck.Store(true)
			errs = append(errs, &exportError{x.name, "calls are left behind", err})
		}
	}
	if errs == nil {
		return err
	}
	return errors.Join(errs...)
}

// Close closes the exported FSs. No listener may serve the FSs any more. An FS with abandoned calls
// stays open, and Close does not wait for an FS that takes too long. It closes all other FSs.
func (s *Server) Close() error {
	list := s.unclosed()
	closed := make([]chan error, len(list))
	for i, x := range list {
		closed[i] = make(chan error, 1)
		if x.giveUp() {
			closed[i] <- nil
			continue
		}
		if x.stuck.Load() {
			closed[i] <- &exportError{x.name, "it stays open", nil}
			continue
		}
		if !x.closing.CompareAndSwap(false, true) {
			closed[i] <- nil
			continue
		}
		go func() { closed[i] <- x.close() }()
	}
	late := time.NewTimer(closeWait)
	defer late.Stop()
	over := make(chan struct{})
	var errs []error
	for i, x := range list {
		select {
		case err := <-closed[i]:
			errs = append(errs, err)
			continue
		case <-over:
		case <-late.C:
			close(over)
		}
		select {
		case err := <-closed[i]:
			errs = append(errs, err)
		default:
			errs = append(errs, &exportError{x.name, "it is left half closed", nil})
		}
	}
	return errors.Join(errs...)
}

// unclosed returns the served exports, and unclosed ones from earlier tables.
func (s *Server) unclosed() (list []*export) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.table.Load().entries {
		list = append(list, e.x)
	}
	return append(list, s.retired...)
}
