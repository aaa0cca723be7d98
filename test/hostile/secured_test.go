// A server with TLS and RPCSEC_GSS in a separate process, and the mechanism of its contexts.

package hostile

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
)

// securedDir makes the directory of a server with TLS and RPCSEC_GSS: an authority, the server's
// certificate, and a keytab.
func securedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ca, err := certs.CreateCA(dir, "test authority", 2, false)
	must.Succeed(t, err)
	_, _, err = ca.Issue(certs.ForServer, "server", []string{"127.0.0.1"}, 2, false)
	must.Succeed(t, err, os.WriteFile(filepath.Join(dir, "keytab"), keytab(), 0o600))
	return dir
}

// keytab returns a keytab file with one key, for nfs/server@TEST.
func keytab() []byte {
	counted := func(b []byte, s string) []byte { return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...) }
	e := binary.BigEndian.AppendUint16(nil, 2) // components
	for _, s := range []string{"TEST", "nfs", "server"} {
		e = counted(e, s)
	}
	e = binary.BigEndian.AppendUint32(e, 3) // kind of name: a host's service
	e = binary.BigEndian.AppendUint32(e, 0) // time
	e = append(e, 1)                        // key version
	e = binary.BigEndian.AppendUint16(e, uint16(krb5.AES256SHA2))
	e = counted(e, string(bytes.Repeat([]byte{7}, 32)))
	return append(binary.BigEndian.AppendUint32([]byte{5, 2}, uint32(len(e))), e...)
}

// secured returns the configuration of a server with the files of dir and default limits. figures
// returns the values of gssFigures.
func secured(dir string) (cfg transport.ServerConfig, figures func() []any, err error) {
	file := func(name string) string { return filepath.Join(dir, name) }
	store, err := certs.Open(certs.Options{Certificate: file("server.crt"), Key: file("server.key")})
	if err != nil {
		return cfg, nil, err
	}
	krb, err := krb5.NewAcceptor(krb5.AcceptorOptions{Keytab: file("keytab")})
	if err != nil {
		return cfg, nil, err
	}
	log := new(lineCount)
	g := gss.NewServer(gss.ServerConfig{
		Acceptor: &openMechanism{krb},
		Map:      func(string) (transport.Cred, bool) { return transport.Cred{UID: 1000, GID: 1000}, true },
		Logger:   slog.New(log),
	})
	figures = func() []any {
		f := g.Figures()
		return []any{f.Contexts, f.Created, f.Refused, f.Evicted, log.n.Load()}
	}
	return transport.ServerConfig{Security: []transport.SecurityFlavor{g}, TLS: store.Server, Logger: slog.New(log)}, figures, nil
}

// gssFigures are the figures of a server with security.
type gssFigures struct {
	contexts                  int // now
	created, refused, evicted int
	lines                     int // of its log
}

// figures returns the server's cost and figures.
func (s *lone) figures() (c cost, f gssFigures) {
	s.t.Helper()
	c = s.cost(&f.contexts, &f.created, &f.refused, &f.evicted, &f.lines)
	return c, f
}

// A lineCount counts log lines.
type lineCount struct{ n atomic.Int64 }

// Enabled implements slog.Handler.
func (*lineCount) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *lineCount) Handle(context.Context, slog.Record) error {
	l.n.Add(1)
	return nil
}

// WithAttrs implements slog.Handler.
func (l *lineCount) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *lineCount) WithGroup(string) slog.Handler { return l }

// An openMechanism creates a context for each token that asks for one, and passes other tokens to
// Kerberos. It secures nothing.
type openMechanism struct{ others gss.Acceptor }

// The tokens: a context at once, or after one more exchange.
const (
	tokenWhole = "whole"
	tokenHalf  = "half"
)

// Accept implements gss.Acceptor.
func (m *openMechanism) Accept(token []byte) (gss.Context, []byte, error) {
	switch string(token) {
	case tokenWhole:
		return openContext{}, []byte(tokenWhole), nil
	case tokenHalf:
		return nil, []byte(tokenHalf), &gss.ContinueError{Next: m}
	}
	return m.others.Accept(token)
}

// Start implements gss.Initiator.
func (m *openMechanism) Start(context.Context) ([]byte, error) { return []byte(tokenWhole), nil }

// Finish implements gss.Initiator.
func (m *openMechanism) Finish([]byte) (gss.Context, error) { return openContext{}, nil }

// An openContext has a key that is known to all.
type openContext struct{}

// Principal implements gss.Context.
func (openContext) Principal() string { return "user@TEST" }

// Expires implements gss.Context.
func (openContext) Expires() time.Time { return time.Now().Add(time.Hour) }

// MIC implements gss.Context.
func (openContext) MIC(dst []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, []byte("open"))
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(dst)
}

// VerifyMIC implements gss.Context.
func (c openContext) VerifyMIC(token []byte, parts ...[]byte) error {
	if !hmac.Equal(token, c.MIC(nil, parts...)) {
		return errors.New("wrong MIC")
	}
	return nil
}

// Wrap implements gss.Context.
func (openContext) Wrap(dst []byte, parts ...[]byte) []byte {
	return append(dst, bytes.Join(parts, nil)...)
}

// Unwrap implements gss.Context.
func (openContext) Unwrap(token []byte) ([]byte, error) { return token, nil }

// Overhead implements gss.Context.
func (openContext) Overhead() (mic, wrap int) { return sha256.Size, 0 }
