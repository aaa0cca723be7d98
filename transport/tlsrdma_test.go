// iWARP over TLS: which connections have it, and the refusals.

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

func dialRDMA(cfg ClientConfig, addr string) (*Client, error) {
	return DialRDMA(bg, iwarp.Open(rnic.DeviceConfig{}), addr, cfg)
}

// TestChannelsOnOneRDMAPort: clients in clear, with TLS and with a certificate use the same port,
// and the server has the channel of each.
func TestChannelsOnOneRDMAPort(t *testing.T) {
	_, s, addr := networks[3].start(t, ServerConfig{})
	for _, c := range []struct {
		cfg  *tls.Config
		want XprtSec
	}{{nil, XprtNone}, {testPKI().client, XprtTLS}, {testPKI().mutual, XprtMTLS}} {
		cl, err := dialRDMA(ClientConfig{TLS: c.cfg}, addr)
		if err != nil {
			t.Fatalf("%v: %v", c.want, err)
		}
		if got := cl.Channel().Level(); got != c.want {
			t.Errorf("the client's level %v, want %v", got, c.want)
		}
		list, _ := s.Conns()
		if len(list) != 1 || list[0].Channel.Level() != c.want || list[0].RDMA == nil {
			t.Errorf("connections %+v, want one with level %v", list, c.want)
		}
		cl.Close()
		for end := time.Now().Add(time.Minute); s.connections() > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	if got, want := handshakeFailures(s), "tls 1, mtls 1"; got != want {
		t.Errorf("counts %q, want %q", got, want)
	}
}

// TestRDMARefusals: each end without TLS, a session of another protocol and RoCE are one clear
// error each.
func TestRDMARefusals(t *testing.T) {
	require := testPKI().server.Clone()
	require.ClientAuth = tls.RequireAndVerifyClientCert
	for _, c := range []struct {
		name   string
		server *tls.Config
		want   TLSFailure
		text   string
	}{
		{"no TLS", nil, TLSCutOff, "the connection was cut in the TLS handshake"},
		{"certificate required", require, TLSPeer, "it refused the TLS handshake: certificate required"},
	} {
		var cfg ServerConfig
		if c.server != nil {
			cfg.TLS = func() *tls.Config { return c.server }
		}
		_, _, addr := networks[1].start(t, cfg)
		_, err := dialRDMA(ClientConfig{TLS: testPKI().client}, addr)
		var refused *TLSError
		if !errors.As(err, &refused) || refused.Failure != c.want || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want a TLSError of %v: %q", c.name, err, c.want, c.text)
		}
	}
	_, err := DialRDMA(bg, roce.Open(rnic.DeviceConfig{}), "127.0.0.1:1", ClientConfig{TLS: testPKI().client})
	if err == nil || !strings.Contains(err.Error(), errNoRDMATLS.Error()) {
		t.Errorf("RoCE: %v, want %v", err, errNoRDMATLS)
	}
}

// TestOtherSessionsOnRDMAPort: a session for "sunrpc", or for nothing in particular, is not taken
// for iWARP.
func TestOtherSessionsOnRDMAPort(t *testing.T) {
	for _, alpn := range []string{alpnSunRPC, ""} {
		_, s, addr := networks[3].start(t, ServerConfig{})
		cfg, _ := clientTLS(testPKI().client, addr, alpn)
		if alpn == "" {
			cfg.NextProtos = nil
		}
		nc := raw(t, addr)
		tc := tls.Client(nc, cfg)
		if err := tc.Handshake(); err == nil {
			_, err = tc.Read(make([]byte, 1))
			if err == nil {
				t.Errorf("ALPN %q is accepted", alpn)
			}
		}
		nc.Close()
		for end := time.Now().Add(time.Minute); handshakeFailures(s) == "" && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if got, want := handshakeFailures(s), "protocol 1"; got != want {
			t.Errorf("ALPN %q: counts %q, want %q", alpn, got, want)
		}
	}
}

// TestPeekByte: the first byte stays in the stream, of sockets and of other connections.
func TestPeekByte(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	dial := func(context.Context) (net.Conn, net.Conn) {
		far, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		near, err := l.Accept()
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		return near, far
	}
	for name, ends := range map[string]func(context.Context) (net.Conn, net.Conn){
		"socket": dial,
		"pipe":   func(context.Context) (net.Conn, net.Conn) { return net.Pipe() },
	} {
		near, far := ends(bg)
		go func() { far.Write([]byte("MPA")); far.Close() }()
		first, again, err := peekByte(near)
		if err != nil || first != 'M' {
			t.Errorf("%s: first byte %q, %v", name, first, err)
		}
		if got, err := io.ReadAll(again); err != nil || string(got) != "MPA" {
			t.Errorf("%s: then %q, %v", name, got, err)
		}
		if _, _, err := peekByte(near); err == nil {
			t.Errorf("%s: a byte after the end", name)
		}
		near.Close()
	}
}
