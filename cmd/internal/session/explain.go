// Advice about a server that does not answer or does not export the requested directory.

package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/cmd/internal/rights"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// An Unreachable is the error of a server that could not be reached or did not answer. A retry may
// succeed.
type Unreachable struct{ error }

// Unwrap returns the original error.
func (u Unreachable) Unwrap() error { return u.error }

// explainConnect adds the reason and a remedy to a failed connection. ctx ends with the wait; hint
// is probeLate's result.
func (s *Session) explainConnect(ctx context.Context, t nfsclient.Target, l *limit, hint string, err error) error {
	var gone *transport.ConnectError
	if !errors.As(err, &gone) || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	if t.Others != "" {
		return s.explainSeveral(t, err)
	}
	busy := errors.Is(err, syscall.EADDRINUSE)
	err = gone // report iWARP's error, if RoCE was tried after iWARP
	var dns *net.DNSError
	var rejected *rnic.RejectError
	var handshake *transport.TLSError
	switch {
	case errors.As(err, &handshake):
		return s.explainTLS(t, handshake)
	case errors.As(err, &dns):
		return Unreachable{fmt.Errorf("%s: %s", s.Name(t), unresolved(t.Host, dns))}
	case errors.As(err, &rejected):
		return fmt.Errorf("%s: the server takes RDMA connections and rejected this one: see its log", s.Name(t))
	case errors.Is(err, syscall.ECONNREFUSED):
		hint := refusedHint(ctx, t)
		if busy {
			hint += "; RoCE was not tried: another program of this machine has UDP port 4791"
		}
		return Unreachable{fmt.Errorf("%s: %w: %s", s.Name(t), syscall.ECONNREFUSED, hint)}
	case hint == "":
		hint = wrongPort(t, portprobe.Identify(ctx, portprobe.Wait, dialPort, t.Addr(), portprobe.Unknown).Kind)
	}
	switch {
	case hint != "":
		return fmt.Errorf("%s: %s", s.Name(t), hint)
	case gone.Timeout():
		return s.timeoutError(t, "connect", l)
	}
	return Unreachable{fmt.Errorf("%s: %w", s.Name(t), gone.Err)}
}

// explainTLS adds a remedy to a failed handshake. Only lost connections are worth a second attempt.
func (s *Session) explainTLS(t nfsclient.Target, e *transport.TLSError) error {
	err := fmt.Errorf("%s: no TLS with the server: %v: %s", s.Name(t), e, s.security.Cure(e))
	switch e.Failure {
	case transport.TLSTimeout, transport.TLSCutOff, transport.TLSPeerLeft: // perhaps it restarts
		return Unreachable{err}
	}
	return err
}

// unresolved returns the message about a host name without an address.
func unresolved(host string, err *net.DNSError) string {
	// the resolver's text follows the operation and the resolver's address
	why := err.Err[strings.LastIndex(err.Err, ": ")+1:]
	if err.IsNotFound || err.Server == "" {
		return fmt.Sprintf("cannot resolve host %s: %s: check the name", host, strings.TrimSpace(why))
	}
	return fmt.Sprintf("cannot resolve host %s: name server %s: %s: check /etc/resolv.conf, or give an address", host, err.Server, strings.TrimSpace(why))
}

// explainSeveral returns one line with the error of each server, if there are several.
func (s *Session) explainSeveral(t nfsclient.Target, err error) error {
	var why []string
	for _, line := range strings.Split(errors.Unwrap(err).Error(), "\n") {
		why = append(why, strings.TrimPrefix(line, "nfs "))
	}
	return Unreachable{fmt.Errorf("%s: none of the servers can be used: %s", s.Name(t), strings.Join(why, "; "))}
}

// dialPort connects to a port to identify it; tests replace it.
var dialPort portprobe.Dialer = new(net.Dialer).DialContext

// A port is identified if the server has not answered after probeDelay, or after probeShare of a
// shorter time limit.
const (
	probeDelay = 4 * time.Second
	probeShare = 0.4
)

// probeLate identifies the service on t's port if connecting takes long, because not every server
// closes a connection that it does not understand. If the service surely speaks another protocol,
// cancel ends the connecting. The returned function ends the probe and returns its result: a
// sentence or "", and whether the result is certain.
func probeLate(ctx context.Context, cancel context.CancelFunc, t nfsclient.Target) func() (hint string, sure bool) {
	if t.Others != "" {
		return func() (string, bool) { return "", false } // the next server is tried anyway
	}
	delay := probeDelay
	if end, ok := ctx.Deadline(); ok {
		delay = min(delay, time.Duration(probeShare*float64(time.Until(end))))
	}
	ctx, stop := context.WithCancel(ctx)
	found := make(chan portprobe.Kind, 1)
	go func() {
		defer close(found)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		k := portprobe.Identify(ctx, portprobe.Wait, dialPort, t.Addr(), portprobe.Unknown).Kind
		if ctx.Err() != nil {
			return
		}
		found <- k
		if k >= portprobe.RPC && wrongPort(t, k) != "" {
			cancel()
		}
	}()
	return func() (string, bool) {
		stop()
		k, ok := <-found
		if !ok {
			return "", false
		}
		return wrongPort(t, k), k >= portprobe.RPC && wrongPort(t, k) != ""
	}
}

// wrongPort returns a sentence about a port with another protocol than t needs, and a remedy. It
// returns "" if the port is right or unknown.
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

// portOf returns the port that was dialed for t.
func portOf(t nfsclient.Target, rdma bool) string {
	t.Transport = nfsclient.TCP
	if rdma {
		t.Transport = nfsclient.RDMA
	}
	_, port, _ := net.SplitHostPort(t.Addr())
	return port
}

// refusedHint checks whether the server answers over the other transport.
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
	return fmt.Sprintf("nothing listens on %s: start the server, or give its port%s", t.Addr(), loopbackHint(t.Host))
}

// loopbackHint returns the usual reason why another machine refuses the connection.
func loopbackHint(host string) string {
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return ""
	}
	return "; nfsrdmad without --addr listens on 127.0.0.1 only"
}

// RefusedByAll returns the error of a mount after each of several targets has refused the
// connection.
func RefusedByAll(spec string, targets []nfsclient.Target) error {
	at := make([]string, len(targets))
	for i, t := range targets {
		at[i] = fmt.Sprintf("%s (%s)", t.Addr(), strings.ToUpper(t.Transport.String()))
	}
	return Unreachable{fmt.Errorf("%s: %w: nothing listens on %s: start the server, or give its port%s",
		spec, syscall.ECONNREFUSED, strings.Join(at, " and "), loopbackHint(targets[0].Host))}
}

// explainMount adds the possible exports or causes to a failed mount. reserved reports that TCP
// calls come from a port below 1024.
func (s *Session) explainMount(ctx context.Context, c *nfsclient.Client, t nfsclient.Target, l *limit, reserved bool, err error) error {
	var refused *nfsclient.MountError
	var auth *transport.AuthError
	var flavor *nfsclient.FlavorError
	switch {
	case errors.As(err, &flavor):
		return fmt.Errorf("%s: %s", s.Name(t), flavorCure(flavor))
	case errors.As(err, &refused) && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such export, or no such directory in one: nfsrdma showmount %s lists the exports", s.Name(t), serverArg(t))
	case errors.As(err, &refused) && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the server does not let this host mount it (%v): %s", s.Name(t), refused.Status, letIn(ctx, c, t, reserved))
	case errors.As(err, &auth):
		return fmt.Errorf("%s: the server refuses uid %d of this host (%v): %s", s.Name(t), os.Geteuid(), auth.Stat, s.uidCure(t, auth.Stat, reserved))
	}
	return s.explainSilence(t, "mount", l, err)
}

// flavorCure returns the reason why an export's flavors cannot be used, and a remedy.
func flavorCure(e *nfsclient.FlavorError) string {
	wants := "the server wants " + nfsclient.SecNames(e.Offered)
	switch {
	case len(e.Offered) == 0 && e.Err != nil:
		return e.Err.Error()
	case errors.Is(e.Err, nfsclient.ErrNoKerberos):
		return wants + ": " + e.Err.Error() + ", so have it exported with sec=sys too (exports(5))"
	case e.Err != nil:
		return wants + ": " + e.Err.Error()
	case len(e.Wanted) > 0:
		return wants + ", and not " + nfsclient.SecNames(e.Wanted) + ": give one of its flavors, or export it with one of yours (exports(5))"
	}
	return wants + ", and this client speaks none of them: export it with sec=sys or sec=krb5 (exports(5))"
}

// uidCure returns the advice about a server that rejects a call's credentials.
func (s *Session) uidCure(t nfsclient.Target, stat oncrpc.AuthStat, reserved bool) string {
	cure := "a server that an ordinary user runs accepts root and that user only, unless it has --trust-local"
	if stat == oncrpc.AuthTooWeak {
		w := s.security.Write
		cure = fmt.Sprintf("its log says what it demands: %s, %s or %s, or a certificate with another name", w("xprtsec", "tls"), w("xprtsec", "mtls"), w("sec", "krb5"))
	}
	if t.Transport == nfsclient.TCP && !reserved {
		cure += "; one with --secure accepts ports below 1024 only, so run this as root, or use RDMA"
	}
	return cure
}

// letIn returns the advice about a server that refuses this host's mount.
func letIn(ctx context.Context, c *nfsclient.Client, t nfsclient.Target, reserved bool) string {
	const port = "over TCP it takes a source port below 1024, which only root has: run this as root, use RDMA, or export it with insecure"
	highPort := t.Transport == nfsclient.TCP && !reserved
	groups, known := clientsOf(ctx, c, t.Path)
	among := rights.Unknown
	if known {
		among = rights.Among(groups, netip.Addr{})
	}
	list := fmt.Sprintf("see its clients with nfsrdma showmount %s, and add this host (exports(5))", serverArg(t))
	switch {
	case among == rights.Listed && highPort:
		return "it is exported to all hosts, but " + port
	case among == rights.Listed:
		return "it is exported to all hosts: see the log of the server"
	case highPort:
		return list + "; if it is among them, " + port
	}
	return list
}

// clientsOf returns the clients of the export that contains a path, as the server lists them.
func clientsOf(ctx context.Context, c *nfsclient.Client, p string) (groups []string, known bool) {
	list, err := c.Exports(ctx)
	best := -1
	for i, x := range list {
		dir := path.Clean("/" + x.Dir)
		above := dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
		if above && (best < 0 || len(x.Dir) > len(list[best].Dir)) {
			best = i
		}
	}
	if err != nil || best < 0 {
		return nil, false
	}
	return list[best].Groups, true
}

// serverArg returns the server of t as an argument, including an unusual transport.
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
