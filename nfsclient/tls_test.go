// Calls to other services of a server that uses TLS: which may go without TLS, and to which port.

package nfsclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// A wire is a network with an attacker, which answers for the port mapper and can divert
// connections.
type wire struct {
	t              *testing.T
	files          string // the address of NFS, which has TLS
	server, client *tls.Config

	mu     sync.Mutex        // guards the fields below
	divert map[string]string // for an address, the address to which its connections go instead
	named  uint32            // the port that the port mapper returns
	clear  []string          // calls without TLS to programs other than the port mapper
}

// newWire returns a network with a server that serves only NFS, with TLS, and a port mapper without
// TLS.
func newWire(t *testing.T) *wire {
	w := &wire{t: t, divert: map[string]string{}}
	dir := t.TempDir()
	ca, err := certs.CreateCA(dir, "authority", 10, false)
	must.Succeed(t, err)
	cert, key, err := ca.Issue(certs.ForServer, "server", []string{"127.0.0.1"}, 5, false)
	must.Succeed(t, err)
	own, err := certs.Open(certs.Options{Certificate: cert, Key: key})
	must.Succeed(t, err)
	peers, err := certs.Open(certs.Options{Authorities: []string{dir + "/" + certs.AuthorityFile}})
	must.Succeed(t, err)
	w.server, w.client = own.Server(), peers.Client("127.0.0.1")
	w.files = w.serve(true, w.program(nfs3.Program, nfs3.Version))
	mapper := w.program(rpcbind.Program, rpcbind.Version)
	mapper.Procs[rpcbind.ProcGetport].Run = func(c *transport.Call) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		var m rpcbind.Mapping
		m.DecodeXDR(c.Args)
		(&rpcbind.PortRes{Port: w.named}).EncodeXDR(c.Res)
		return c.ArgsErr()
	}
	w.divert["127.0.0.1:111"] = w.serve(false, mapper)
	return w
}

// program returns a program whose procedures succeed without results, and record calls without TLS.
func (w *wire) program(number, version uint32) *transport.Program {
	p := &transport.Program{Name: strconv.Itoa(int(number)), Number: number, Version: version}
	for n := range 8 {
		p.Procs = append(p.Procs, transport.Procedure{Name: strconv.Itoa(n), Inline: true, Run: func(c *transport.Call) error {
			if c.Channel.Level() == transport.XprtNone {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.clear = append(w.clear, p.Name+"."+strconv.Itoa(n))
			}
			return nil
		}})
	}
	return p
}

// serve serves programs at an address, with TLS or without.
func (w *wire) serve(withTLS bool, programs ...*transport.Program) string {
	w.t.Helper()
	cfg := transport.ServerConfig{Logger: slog.New(slog.DiscardHandler)}
	if own := w.server; withTLS {
		cfg.TLS = func() *tls.Config { return own }
	}
	s := transport.NewServer(cfg, programs...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(w.t, err)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.ServeTCP(l) }()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
		<-done
	})
	return l.Addr().String()
}

// name makes the port mapper return the port of an address.
func (w *wire) name(addr string) {
	_, port, err := net.SplitHostPort(addr)
	must.Succeed(w.t, err)
	n, err := strconv.Atoi(port)
	must.Succeed(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.named = uint32(n)
}

// dial returns a Client of the server, with TLS.
func (w *wire) dial() *nfsclient.Client {
	w.t.Helper()
	c, err := nfsclient.Dial(w.t.Context(), w.files, nfsclient.Options{
		Transport: nfsclient.TCP,
		TLS:       func(string) *tls.Config { return w.client },
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			w.mu.Lock()
			if to := w.divert[addr]; to != "" {
				addr = to
			}
			w.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	must.Succeed(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	return c
}

// inClear returns the calls made without TLS, separated by blanks.
func (w *wire) inClear() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.clear, " ")
}

// TestLocksNeverGoInClearBesideTLS: a port mapper without TLS returns the port of a lock manager
// without TLS, which gets no call.
func TestLocksNeverGoInClearBesideTLS(t *testing.T) {
	w := newWire(t)
	w.name(w.serve(false, w.program(nlm4.Program, nlm4.Version)))
	err := w.dial().CallLockManager(t.Context(), nlm4.ProcNull, nil, nil)
	if !errors.Is(err, nfsclient.ErrNoLockManager) {
		t.Errorf("got %v, want ErrNoLockManager", err)
	}
	if want := "in clear"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
	if got := w.inClear(); got != "" {
		t.Errorf("calls in clear: got %s, want none", got)
	}
}

// TestLocksUseTLSOfAnotherPort: a lock manager at a port of its own is used with TLS.
func TestLocksUseTLSOfAnotherPort(t *testing.T) {
	w := newWire(t)
	w.name(w.serve(true, w.program(nlm4.Program, nlm4.Version)))
	must.Succeed(t, w.dial().CallLockManager(t.Context(), nlm4.ProcNull, nil, nil))
	if got := w.inClear(); got != "" {
		t.Errorf("calls in clear: got %s, want none", got)
	}
}

// TestMountMayGoInClearToItsOwnPort: the server has reported over TLS that its NFS port has no
// MOUNT. MOUNT's own port then gets calls without TLS, as from Linux's client.
func TestMountMayGoInClearToItsOwnPort(t *testing.T) {
	w := newWire(t)
	w.name(w.serve(false, w.program(mount3.Program, mount3.Version)))
	must.Succeed(t, w.dial().Unmount(t.Context(), "/x"))
	if got, want := w.inClear(), "100005.3"; got != want {
		t.Errorf("calls in clear: got %q, want %q", got, want)
	}
}

// TestMountNeverGoesInClearToThePortOfNFS: an attacker returns NFS's port as MOUNT's, and answers
// there without TLS in the server's place. No call is sent without TLS.
func TestMountNeverGoesInClearToThePortOfNFS(t *testing.T) {
	w := newWire(t)
	c := w.dial()
	attacker := w.serve(false, w.program(mount3.Program, mount3.Version))
	w.name(w.files)
	w.mu.Lock()
	w.divert[w.files] = attacker
	w.mu.Unlock()
	var refused *transport.TLSError
	err := c.Unmount(t.Context(), "/x")
	if !errors.As(err, &refused) || refused.Failure != transport.TLSNotOffered {
		t.Errorf("got %v, want the error that TLS is not offered", err)
	}
	if got := w.inClear(); got != "" {
		t.Errorf("calls in clear: got %s, want none", got)
	}
}

// TestMountWithAnotherCertificateGetsNoCall: calls without TLS are sent only if the server does not
// offer TLS. A server with TLS and a foreign certificate gets no call, although it would accept
// calls without TLS.
func TestMountWithAnotherCertificateGetsNoCall(t *testing.T) {
	w := newWire(t)
	w.server = newWire(t).server
	w.name(w.serve(true, w.program(mount3.Program, mount3.Version)))
	var refused *transport.TLSError
	err := w.dial().Unmount(t.Context(), "/x")
	if !errors.As(err, &refused) || refused.Failure != transport.TLSUnknownCA {
		t.Errorf("got %v, want the error of an unknown authority", err)
	}
	if got := w.inClear(); got != "" {
		t.Errorf("calls in clear: got %s, want none", got)
	}
}
