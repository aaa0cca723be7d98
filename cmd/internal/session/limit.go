// The time limit of a server's first answer, and the error after the limit.

package session

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A limit limits the wait for a server's first answers.
type limit struct {
	begun time.Time // set by begin
	most  time.Duration
	flag  string        // the flag that sets most, with its value, in brackets; "": none
	call  time.Duration // the limit of each call, possibly below most; 0: none
}

// limit returns the shorter of --connect-timeout and --timeout.
func (s *Session) limit() limit {
	if t := s.Flags.Timeout; t > 0 && t < s.Flags.ConnectTimeout {
		return limit{most: t, flag: fmt.Sprintf(" (--timeout %v)", t)}
	}
	if s.Flags.Mount8 {
		return limit{most: s.Flags.ConnectTimeout}
	}
	return limit{most: s.Flags.ConnectTimeout, flag: fmt.Sprintf(" (--connect-timeout %v)", s.Flags.ConnectTimeout)}
}

// begin starts the wait; the returned context ends with the wait.
func (l *limit) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	l.begun = time.Now()
	return context.WithTimeout(ctx, l.most)
}

// FirstAnswer runs call, which waits for t's server, and explains a timeout.
func (s *Session) FirstAnswer(ctx context.Context, t nfsclient.Target, what string, call func(context.Context) error) error {
	limit := s.limit()
	ctx, cancel := limit.begin(ctx)
	defer cancel()
	return s.explainSilence(t, what, &limit, call(ctx))
}

// explainSilence adds t to an error, and possible reasons to a timeout. EAGAIN is a reply from the
// server, NFS3ERR_JUKEBOX.
func (s *Session) explainSilence(t nfsclient.Target, what string, l *limit, err error) error {
	var over interface{ Timeout() bool }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &over) && over.Timeout() && !errors.Is(err, syscall.EAGAIN):
		return s.timeoutError(t, what, l)
	}
	return fmt.Errorf("%s: %w", s.Name(t), err)
}

// timeoutError returns the error after a timeout of t's server, with possible causes. It shows the
// elapsed time, because a wait has parts and the last part may end before the limit.
func (s *Session) timeoutError(t nfsclient.Target, what string, l *limit) error {
	cause := "a firewall may drop packets to it, or its port is that of another protocol"
	if p, err := nfsclient.ParseProvider(s.Flags.RDMA); t.Transport == nfsclient.RDMA && err == nil && p == nfsclient.RoCE {
		cause = "a firewall may drop packets to UDP port 4791, or it has no RoCE (nfsrdmad: --rdma auto)"
	}
	passed, flag := time.Since(l.begun), l.flag
	if l.call > 0 && l.call < l.most && passed < l.most {
		flag = fmt.Sprintf(" (timeo × retrans %v)", l.call)
	}
	return Unreachable{fmt.Errorf("%s: %s: no answer over %s in %v%s: %s; nfsrdma doctor %s tells more",
		s.Name(t), what, t.Transport, passed.Round(100*time.Millisecond), flag, cause, serverArg(t))}
}
