// The end of a server some of whose exports do not answer.

package nfsserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// closeWait is how long the FS of an export may take to close.
const closeWait = 10 * time.Second

// An exportError is of an export whose file system does not answer.
type exportError struct {
	name, what string
	cause      error // why it is not waited for any longer, or nil
}

func (e *exportError) Error() string {
	return fmt.Sprintf("export %s: its file system does not answer: %s", e.name, e.what)
}

func (e *exportError) Unwrap() error { return e.cause }

// Shutdown stops taking calls, lets those that run end until ctx is done, then
// closes all connections. The Server can be closed, or started again, after it. Calls that
// do not end, as their file system does not answer, are left behind after some seconds: the
// error names the exports, which Close then leaves open.
func (v *Service) Shutdown(ctx context.Context) error {
	err := v.rpc.Shutdown(ctx)
	v.loops.Wait()
	var stuck *transport.StuckError
	if !errors.As(err, &stuck) {
		return err
	}
	var errs []error
	for _, x := range v.srv.unclosed() {
		if slices.Contains(stuck.Lanes, x.name) {
			x.stuck.Store(true)
			errs = append(errs, &exportError{x.name, "calls are left behind", err})
		}
	}
	if errs == nil {
		return err
	}
	return errors.Join(errs...)
}

// Close closes the exported FSs. Nothing may be served any more. An FS that calls were
// left behind in stays open, as does, so far as it is, one that does not close in time:
// neither keeps the others from being closed.
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
		go func() { closed[i] <- x.fs.Close() }()
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

// unclosed returns the exports that are served, and those of earlier tables that are not closed
// yet.
func (s *Server) unclosed() (list []*export) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.table.Load().entries {
		list = append(list, e.x)
	}
	return append(list, s.retired...)
}
