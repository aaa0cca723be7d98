// The log and the counts of handshakes that clients end.

package transport

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestClientsThatLeave: a client that closes the connection instead of an alert is counted, and the
// log says so, with a remedy. A client that leaves before the certificate counts as cut off.
func TestClientsThatLeave(t *testing.T) {
	for _, c := range []struct {
		name  string
		leave func(nc net.Conn)
		want  []string
	}{
		{"before a message", func(nc net.Conn) { nc.Close() }, []string{"reason=cut_off"}},
		{"after the certificate", func(nc net.Conn) {
			cfg := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error {
				nc.Close()
				return io.EOF
			}}
			if err := tls.Client(nc, cfg).Handshake(); err == nil {
				t.Error("the handshake succeeds")
			}
		}, []string{"reason=peer_left", "the client ended the connection after it got this server's certificate, and gave no reason", "server.test, 127.0.0.1", "/etc/tlshd.conf"}},
		{"with an alert", func(nc net.Conn) {
			if err := tls.Client(nc, &tls.Config{RootCAs: newTestCA().pool, ServerName: "server.test"}).Handshake(); err == nil {
				t.Error("the handshake succeeds")
			}
		}, []string{"reason=peer_alert", "the client refuses this server's certificate (tls: ", "server.test, 127.0.0.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log lockedLog
			_, s, addr := networks[0].start(t, ServerConfig{TLS: testPKI().serve, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			nc := raw(t, addr)
			must.Succeed(t, probeTLS(nc))
			c.leave(nc)
			for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), "TLS handshake failed") && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			for _, want := range c.want {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log lacks %q:\n%s", want, log.String())
				}
			}
			if got, want := handshakeFailures(s), strings.TrimPrefix(c.want[0], "reason=")+" 1"; got != want {
				t.Errorf("counts %q, want %q", got, want)
			}
		})
	}
}
