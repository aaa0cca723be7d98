// Connecting to the server: by either transport, once or until retry= has passed.

package mounter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// The waits between two attempts.
const (
	firstRetryWait = time.Second
	maxRetryWait   = 30 * time.Second
)

// connect opens the export and retries for as long as the options allow. It calls onRetry once,
// with the first error that leads to a retry.
func (r *Request) connect(ctx context.Context, s *session.Session, responding func(bool), tell func(string), onRetry func(error)) (*nfsclient.FS, error) {
	end := time.Now().Add(r.retry())
	wait := firstRetryWait
	for {
		fsys, err := r.attempt(ctx, s, responding, tell)
		var u session.Unreachable
		switch {
		case err == nil || ctx.Err() != nil || !errors.As(err, &u):
			return fsys, err
		case time.Now().Add(wait).After(end):
			return nil, err
		case onRetry != nil:
			onRetry(err)
			onRetry = nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, maxRetryWait)
	}
}

// attempt opens the export through the first target that works.
func (r *Request) attempt(ctx context.Context, s *session.Session, responding func(bool), tell func(string)) (*nfsclient.FS, error) {
	var before error
	for i, t := range r.Source.Targets {
		o := r.Options.Client(t)
		o.Responding, o.Moved = responding, session.MoveNotice(tell)
		if err := r.secure(&o, tell); err != nil {
			return nil, err
		}
		s.UseSecurity(r.security)
		fsys, err := s.OpenWith(ctx, r.Spec, t, o)
		if err == nil {
			err = r.checkServers(ctx, fsys, tell)
		}
		switch {
		case ctx.Err() != nil:
			return fsys, err
		case errors.Is(err, nfsclient.ErrOtherVolume): // every transport would give the same error
			return nil, err
		case err == nil && len(r.Source.Targets) > 1:
			tell(fmt.Sprintf("%s: over %s%s", r.Spec, strings.ToUpper(t.Transport.String()), r.rdmaReason(before)))
			return fsys, nil
		case err == nil:
			return fsys, nil
		case i > 0 && errors.Is(err, syscall.ECONNREFUSED) && errors.Is(before, syscall.ECONNREFUSED):
			return nil, session.RefusedByAll(r.Spec, r.Source.Targets)
		case i > 0:
			return nil, fmt.Errorf("%w%s", err, r.rdmaReason(before))
		case len(r.Source.Targets) == 1:
			return nil, err
		}
		before = err
	}
	return nil, before
}

// checkServers refuses a list of servers with different volumes. A server that does not answer now
// is checked when it is first used.
func (r *Request) checkServers(ctx context.Context, fsys *nfsclient.FS, tell func(string)) error {
	err := fsys.Client().CheckServers(ctx, func(server string, err error) {
		tell(fmt.Sprintf("%s: server %s does not answer, and is looked at when it is needed", r.Spec, server))
	})
	if err != nil {
		fsys.Client().Close()
		return fmt.Errorf("%s: %w", r.Spec, err)
	}
	return nil
}

// rdmaReason returns the reason in brackets why RDMA was not used.
func (r *Request) rdmaReason(err error) string {
	if err == nil {
		return ""
	}
	return " (RDMA: " + strings.TrimPrefix(err.Error(), r.Spec+": ") + ")"
}
