// --tls-kernel on kernels of all kinds, and in a server on this machine's kernel.

package program

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
)

// TestTLSKernelModes: on accepts any kernel with TLS and refuses others; auto uses the kernel only
// if it supports new keys.
func TestTLSKernelModes(t *testing.T) {
	none := errors.New("no module")
	for _, c := range []struct {
		mode    string
		cert    bool
		rekeys  bool
		absent  error
		kernel  bool
		problem string
	}{
		{"off", true, true, nil, false, ""},
		{"off", false, true, nil, false, ""},
		{"on", true, true, nil, true, ""},
		{"on", true, false, nil, true, ""},
		{"on", true, false, none, false, "--tls-kernel on: no module: load the kernel's module (modprobe tls), or write auto"},
		{"on", false, true, nil, false, "--tls-kernel needs a certificate: name it with --tls-cert"},
		{"auto", true, true, nil, true, ""},
		{"auto", true, false, nil, false, ""},
		{"auto", true, false, none, false, ""},
		{"yes", true, true, nil, false, `--tls-kernel "yes": must be off, on, auto`},
	} {
		s := security{tlsKernel: c.mode}
		if c.cert {
			s.store = new(certs.Store)
		}
		problem := ""
		if err := s.chooseKernel(func() (bool, error) { return c.rekeys, c.absent }); err != nil {
			problem = err.Error()
		}
		if problem != c.problem || s.inKernel != c.kernel {
			t.Errorf("%+v: in the kernel %v, %q", c, s.inKernel, problem)
		}
	}
}

// TestServeTLSKernel: with auto a server serves TLS, and all its views agree whether the kernel
// encrypts.
func TestServeTLSKernel(t *testing.T) {
	p, dir, tcp := newPKI(t), t.TempDir(), freePort(t)
	socket := filepath.Join(dir, "control")
	end := serveArgs(t, "serve", "--ephemeral-key", "--tcp-port", tcp, "--rdma-port", "off", "--rpcbind", "off", "--log-level", "panic", "--control", socket,
		"--tls-cert", p.server, "--tls-key", p.serverKey, "--tls-kernel", "auto", dir)
	defer end()
	addr := net.JoinHostPort("127.0.0.1", tcp)
	dialServe(t, addr).Close()
	awaitControl(t, socket)
	rekeys, err := transport.ProbeKernelTLS()
	want := rekeys && err == nil
	c, err := transport.DialTCP(t.Context(), addr, clientTLS(t, p, false))
	must.Succeed(t, err)
	defer c.Close()
	must.Equal(t, "status", view(t, socket, "status")["tls"].(map[string]any)["kernel"].(bool), want)
	for _, row := range view(t, socket, "clients")["clients"].([]any) {
		if tls, ok := row.(map[string]any)["tls"].(map[string]any); ok && tls["kernel"] != want {
			t.Errorf("clients: %v, want kernel %v", row, want)
		}
	}
}

// TestShowsKernel: the tables say that the kernel encrypts.
func TestShowsKernel(t *testing.T) {
	c := clientReport{XprtSec: "mtls", TLS: &tlsReport{Kernel: true}, Users: []userReport{{Sec: "sys"}}}
	must.Equal(t, "SECURITY", securityCell(&c), "mtls(kernel),sys")
	var text strings.Builder
	showSecurity(&text, &tlsStatus{Kernel: true}, nil)
	if !strings.Contains(text.String(), "  tls          the kernel encrypts new sessions over TCP\n") {
		t.Errorf("status shows\n%s\nwant a line about the kernel", &text)
	}
}
