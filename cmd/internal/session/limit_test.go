// The end of a wait: at the time limit, which the error names.

package session

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// never is a dialer for a path that drops all packets.
func never(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSilenceEndsAtTheLimit: the attempt and the probe of the port together take at most the
// shorter of --timeout and --connect-timeout. The error names that limit, and a firewall as the
// first cause.
func TestSilenceEndsAtTheLimit(t *testing.T) {
	was := dialPort
	dialPort = never
	defer func() { dialPort = was }()
	for _, c := range []struct {
		flags Flags
		call  time.Duration
		ends  time.Duration
		want  string
	}{
		{Flags{ConnectTimeout: 10 * time.Second}, transport.Hard, 10 * time.Second, "in 10s (--connect-timeout 10s)"},
		{Flags{ConnectTimeout: 10 * time.Second, Timeout: 5 * time.Second}, 5 * time.Second, 5 * time.Second, "in 5s (--timeout 5s)"},
		{Flags{ConnectTimeout: 3 * time.Second, Timeout: time.Hour}, time.Hour, 3 * time.Second, "in 3s (--connect-timeout 3s)"},
		{Flags{ConnectTimeout: 10 * time.Second, Mount8: true}, transport.Hard, 10 * time.Second, "no answer over tcp in 10s: a firewall"},
		{Flags{ConnectTimeout: 10 * time.Second}, 4 * time.Second, 10 * time.Second, "in 10s (--connect-timeout 10s)"},
		{Flags{ConnectTimeout: 10 * time.Minute}, 4 * time.Second, 4*time.Second + 5*time.Minute, "(timeo × retrans 4s)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Session{Stderr: new(strings.Builder), Flags: c.flags}
			to := nfsclient.Target{Host: "192.0.2.1", Transport: nfsclient.TCP, Path: "/e"}
			begun := time.Now()
			_, err := s.OpenWith(t.Context(), "h:/e", to, nfsclient.Options{Transport: nfsclient.TCP, CallTimeout: c.call, Dial: never})
			if took := time.Since(begun); took != c.ends {
				t.Errorf("%+v: ends after %v, want %v", c.flags, took, c.ends)
			}
			var later Unreachable
			if !errors.As(err, &later) {
				t.Errorf("%+v: %v, want an Unreachable", c.flags, err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q", c.flags, err, c.want)
			}
			if !strings.Contains(err.Error(), ": a firewall may drop packets") {
				t.Errorf("%+v: %v, want the firewall first", c.flags, err)
			}
		})
	}
}

// TestTwoTransportsShareTheLimit: with --proto auto the attempts over both transports together take
// no longer than the limit.
func TestTwoTransportsShareTheLimit(t *testing.T) {
	was := dialPort
	dialPort = never
	defer func() { dialPort = was }()
	synctest.Test(t, func(t *testing.T) {
		to := nfsclient.Target{Host: "192.0.2.1", Transport: nfsclient.TCP, Path: "/e"}
		s := &Session{Flags: Flags{ConnectTimeout: 10 * time.Second, Proto: protoAuto}, typed: map[nfsclient.Target]string{to: "h:/e"}}
		begun := time.Now()
		_, err := s.dialAny(t.Context(), to, nfsclient.Options{Transport: nfsclient.TCP, Dial: never})
		if took := time.Since(begun); took != s.Flags.ConnectTimeout {
			t.Errorf("ends after %v, want %v", took, s.Flags.ConnectTimeout)
		}
		if err == nil || !strings.Contains(err.Error(), "(over TCP: connect: no answer") {
			t.Errorf("%v, want both attempts in it", err)
		}
	})
}

// TestPortIsLookedAtWithinTheLimit: a limit shorter than the usual delay leaves time for the probe.
func TestPortIsLookedAtWithinTheLimit(t *testing.T) {
	was := dialPort
	defer func() { dialPort = was }()
	synctest.Test(t, func(t *testing.T) {
		dialPort = func(ctx context.Context, _, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.WriteString(theirs, "SSH-2.0-OpenSSH_9.2\r\n")
				theirs.Close()
			}()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		}
		s := &Session{Stderr: new(strings.Builder), Flags: Flags{ConnectTimeout: time.Second}}
		to := nfsclient.Target{Host: "192.0.2.1", Transport: nfsclient.TCP, Path: "/e"}
		begun := time.Now()
		_, err := s.OpenWith(t.Context(), "h:/e", to, nfsclient.Options{Transport: nfsclient.TCP, Dial: never})
		if took := time.Since(begun); took >= time.Second {
			t.Errorf("ends after %v, want less than 1s", took)
		}
		if err == nil || !strings.Contains(err.Error(), "is SSH, not NFS") {
			t.Errorf("%v, want that the port is SSH's", err)
		}
	})
}

// TestSilentCallIsExplained: a call without a reply gets the same explanation as a connection
// without an answer. Other errors stay unchanged.
func TestSilentCallIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{Flags: Flags{ConnectTimeout: 3 * time.Second, RDMA: "roce"}}
		for arg, cause := range map[string]string{"nfs://h:88/e": "a firewall may drop packets to it", "nfsrdma://h/e": "UDP port 4791, or it has no RoCE"} {
			target, err := s.Target(arg)
			if err != nil {
				t.Fatalf("Target: %v", err)
			}
			err = s.FirstAnswer(t.Context(), target, "ping", func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			for _, want := range []string{arg + ": ping: no answer over ", " in 3s (--connect-timeout 3s): ", cause, "; nfsrdma doctor "} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			for _, other := range []error{transport.ErrBadReply, &nfsclient.StatusError{Proc: nfs3.ProcFsinfo, Status: nfs3.ErrJukebox}} {
				err := s.FirstAnswer(t.Context(), target, "ping", func(context.Context) error { return other })
				if !errors.Is(err, other) || err.Error() != arg+": "+other.Error() {
					t.Errorf("%v, want %s and %v", err, arg, other)
				}
			}
		}
	})
}
