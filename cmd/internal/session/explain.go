// What to do about a server that does not answer, or does not export what is asked for.

package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// An Unreachable is a server that could not be reached, or did not answer: it may later.
type Unreachable struct{ error }

// Unwrap gives the error that the text is of.
func (u Unreachable) Unwrap() error { return u.error }

// explainConnect says why the server of t cannot be used, and what may help.
func (s *Session) explainConnect(ctx context.Context, t nfsclient.Target, err error) error {
	var gone *transport.ConnectError
	if !errors.As(err, &gone) || ctx.Err() != nil {
		return err
	}
	if t.Others != "" {
		return s.explainSeveral(t, err)
	}
	busy := errors.Is(err, syscall.EADDRINUSE)
	err = gone // of iWARP, if RoCE was tried after it
	var dns *net.DNSError
	var rejected *rnic.RejectError
	switch {
	case errors.As(err, &dns):
		return Unreachable{fmt.Errorf("%s: host %s: %s", s.Name(t), t.Host, dns.Err)}
	case errors.As(err, &rejected):
		return fmt.Errorf("%s: the server takes RDMA connections and rejected this one: see its log", s.Name(t))
	case errors.Is(err, syscall.ECONNREFUSED):
		hint := refusedHint(ctx, t)
		if busy {
			hint += "; RoCE was not tried: another program of this machine has UDP port 4791"
		}
		return Unreachable{fmt.Errorf("%s: %w: %s", s.Name(t), syscall.ECONNREFUSED, hint)}
	default:
		if hint := wrongPort(t, portprobe.Identify(ctx, portprobe.Wait, dialPort, t.Addr(), portprobe.Unknown).Kind); hint != "" {
			return fmt.Errorf("%s: %s", s.Name(t), hint)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || gone.Timeout() {
		return s.silence(t, "connect")
	}
	return Unreachable{fmt.Errorf("%s: %w", s.Name(t), gone.Err)}
}

// explainSeveral says of each of several servers why it cannot be used, in one line.
func (s *Session) explainSeveral(t nfsclient.Target, err error) error {
	var why []string
	for _, line := range strings.Split(errors.Unwrap(err).Error(), "\n") {
		why = append(why, strings.TrimPrefix(line, "nfs "))
	}
	return Unreachable{fmt.Errorf("%s: none of the servers can be used: %s", s.Name(t), strings.Join(why, "; "))}
}

// dialPort connects to a port to find out what is there; tests put another in its place.
var dialPort portprobe.Dialer = new(net.Dialer).DialContext

// probeDelay is how long a server may take to answer before its port is looked at.
const probeDelay = 4 * time.Second

// probeLate looks what is at the port of t when connecting takes long, for not
// every server hangs up on what it does not understand. Where it is surely another
// protocol connecting is ended by cancel. The function that is returned ends the
// probe, and gives what it found: a sentence, or "".
func probeLate(ctx context.Context, cancel context.CancelFunc, t nfsclient.Target) func() string {
	if t.Others != "" {
		return func() string { return "" } // the next one is tried in any case
	}
	ctx, stop := context.WithCancel(ctx)
	found := make(chan string, 1)
	go func() {
		defer close(found)
		select {
		case <-ctx.Done():
			return
		case <-time.After(probeDelay):
		}
		k := portprobe.Identify(ctx, portprobe.Wait, dialPort, t.Addr(), portprobe.Unknown).Kind
		if hint := wrongPort(t, k); hint != "" && k >= portprobe.RPC && ctx.Err() == nil {
			found <- hint
			cancel()
		}
	}()
	return func() string {
		stop()
		return <-found
	}
}

// wrongPort says in one sentence what is at the port of t, if it is not what t
// needs, and what to do; "" where the port is right or cannot be told.
func wrongPort(t nfsclient.Target, k portprobe.Kind) string {
	rdma := t.Transport == nfsclient.RDMA
	switch {
	case k == portprobe.RPC && rdma:
		t.Transport = nfsclient.TCP
		return fmt.Sprintf("port %s is not RDMA but ONC RPC over TCP: use %s, or the server's RDMA port (20049)", portOf(t, true), t)
	case k == portprobe.MPA && !rdma:
		t.Transport = nfsclient.RDMA
		return fmt.Sprintf("port %s is the RDMA port (iWARP), not TCP: use %s, or the server's TCP port (2049)", portOf(t, false), t)
	case k == portprobe.SSH, k == portprobe.HTTP, k == portprobe.TLS:
		return fmt.Sprintf("port %s is %s, not NFS: leave the port out, or give the server's NFS port", portOf(t, rdma), k)
	case k == portprobe.Closes:
		return fmt.Sprintf("the server hung up on the first message: is %s its %s port? nfsrdma doctor %s tells more", portOf(t, rdma), strings.ToUpper(t.Transport.String()), t)
	case k == portprobe.Unknown:
		return fmt.Sprintf("port %s speaks another protocol: leave the port out, or give the server's NFS port", portOf(t, rdma))
	}
	return ""
}

// portOf is the port that t was dialed at.
func portOf(t nfsclient.Target, rdma bool) string {
	t.Transport = nfsclient.TCP
	if rdma {
		t.Transport = nfsclient.RDMA
	}
	_, port, _ := net.SplitHostPort(t.Addr())
	return port
}

// refusedHint looks whether the server is there by the other transport.
func refusedHint(ctx context.Context, t nfsclient.Target) string {
	other := t
	expected := portprobe.RPC
	other.Port, other.Transport = 0, nfsclient.TCP
	if t.Transport == nfsclient.TCP {
		expected, other.Transport = portprobe.MPA, nfsclient.RDMA
	}
	switch k := portprobe.Identify(ctx, portprobe.Wait, dialPort, other.Addr(), expected).Kind; {
	case k == portprobe.RPC && other.Transport == nfsclient.TCP:
		return fmt.Sprintf("the host serves NFS over TCP: use %s, or have the server serve RDMA", other)
	case k == portprobe.MPA && other.Transport == nfsclient.RDMA:
		return fmt.Sprintf("the host serves NFS over RDMA: use %s, or have the server serve TCP", other)
	}
	return "is the server running, and is this its port?"
}

// explainMount says what else could be mounted.
func (s *Session) explainMount(t nfsclient.Target, err error) error {
	var refused *nfsclient.MountError
	switch {
	case errors.As(err, &refused) && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such export, or no such directory in one: nfsrdma showmount %s lists the exports", s.Name(t), serverArg(t))
	case errors.As(err, &refused) && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the server does not let this host mount it (%v): see its list of clients with nfsrdma showmount %s", s.Name(t), refused.Status, serverArg(t))
	}
	return s.ExplainSilence(t, "mount", err)
}

// ExplainSilence says what it may be when the server of t took the connection and then said nothing.
func (s *Session) ExplainSilence(t nfsclient.Target, what string, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", s.Name(t), err)
	}
	return s.silence(t, what)
}

func (s *Session) silence(t nfsclient.Target, what string) error {
	return Unreachable{fmt.Errorf("%s: %s: no answer over %s within %v (--connect-timeout): is this its port, and not that of another protocol? nfsrdma doctor %s tells more",
		s.Name(t), what, t.Transport, s.Flags.ConnectTimeout, serverArg(t))}
}

// serverArg is the server of t as an argument, the transport too where it is not the usual one.
func serverArg(t nfsclient.Target) string {
	if t.Transport == nfsclient.TCP {
		t.Path = "/"
		return t.String()
	}
	if t.Port == 0 {
		return t.Host
	}
	return t.Addr()
}
