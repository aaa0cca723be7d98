// A store: the certificate, authorities and revocation lists in use, and their reload.

// Package certs makes TLS 1.3 configurations from files, and the files of a small certificate
// authority.
//
// A Store holds a certificate with its key, the authorities for the peers' certificates, and
// revocation lists. It reads changed files again without a restart. A changed file with a mistake
// leaves the earlier content in use.
//
// Until version 1 names may change.
package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// Protocol is the ALPN name of RPC-with-TLS (RFC 9289 §8.2).
const Protocol = "sunrpc"

// lookInterval is the minimum time between two checks for changed files.
const lookInterval = time.Second

// A ClientAuth is a server's demand for client certificates.
type ClientAuth uint8

// The demands for client certificates.
const (
	NoClientCert       ClientAuth = iota // none is requested
	OptionalClientCert                   // requested; a client without one is accepted
	RequiredClientCert                   // a client without one is refused
)

// Options name the files of a Store, and set its rules.
type Options struct {
	Certificate string   // PEM: the certificate, then its intermediates; "" for none
	Key         string   // PEM: the private key; "" if Certificate has it
	Authorities []string // PEM bundles with the peers' authorities; none: those of the system
	Revocations []string // PEM or DER: revocation lists of these authorities

	ClientAuth ClientAuth   // servers only; a demand needs Authorities
	Log        *slog.Logger // nil: slog.Default
}

// Stats describe a store.
type Stats struct {
	NotAfter   time.Time // the certificate expires; zero: none
	NextUpdate time.Time // the first revocation list expires; zero: none
	Reloads    uint64    // successful reloads
	Failures   uint64    // reloads that found a mistake
	Err        error     // the mistake in the files, while earlier content is in use
}

// A Store makes configurations. It is safe for concurrent use.
type Store struct {
	options Options
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	current *content
	looked  time.Time
	seen    []stamp // of the files at the latest load, even a failed one
	stats   Stats
}

// Open loads the files. The error names the file and the cure.
func Open(o Options) (*Store, error) { return open(o, time.Now) }

func open(o Options, now func() time.Time) (*Store, error) {
	s := &Store{options: o, log: o.Log, now: now}
	if s.log == nil {
		s.log = slog.Default()
	}
	if o.ClientAuth != NoClientCert && len(o.Authorities) == 0 {
		return nil, errors.New("client certificates need an authority: name the file with its certificate")
	}
	if o.Certificate == "" && o.Key != "" {
		return nil, fmt.Errorf("key %s has no certificate: name the file with it too", o.Key)
	}
	if len(o.Revocations) > 0 && len(o.Authorities) == 0 {
		return nil, errors.New("revocation lists need their authority: name the file with its certificate")
	}
	s.seen, s.looked = stamps(o.files()), now()
	c, err := load(&o, now())
	if err != nil {
		return nil, err
	}
	s.use(c)
	return s, nil
}

// Server returns the configuration for one server connection. Explain interprets the errors of its
// handshake.
func (s *Store) Server() *tls.Config {
	c := s.look()
	cfg := c.config(s.now)
	cfg.Certificates = c.certificates()
	switch s.options.ClientAuth {
	case OptionalClientCert:
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	case RequiredClientCert:
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	cfg.ClientCAs = c.authorities
	return cfg
}

// Client returns the configuration for one connection to the server with this name or address. The
// server's certificate must have the name.
func (s *Store) Client(name string) *tls.Config {
	c := s.look()
	cfg := c.config(s.now)
	cfg.ServerName = name
	cfg.RootCAs = c.authorities
	if c.certificate != nil {
		// The certificate is sent even if the server's list of authorities lacks its issuer: the
		// server then refuses it with a reason.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.certificate, nil }
	}
	return cfg
}

// Stats looks for changed files, and describes the store.
func (s *Store) Stats() Stats {
	s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// look returns the content to use. It reads changed files, at most once in each lookInterval.
func (s *Store) look() *content {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	// A clock that was set back must not stop reloads.
	if since := now.Sub(s.looked); since >= 0 && since < lookInterval {
		return s.current
	}
	s.looked = now
	// The stamps are taken before the files are read: a later change differs from them.
	seen := stamps(s.options.files())
	if equal(seen, s.seen) {
		return s.current
	}
	s.seen = seen
	c, err := load(&s.options, now)
	if err != nil {
		s.stats.Failures++
		if s.stats.Err == nil || s.stats.Err.Error() != err.Error() {
			s.log.Error("cannot use changed TLS files: the earlier ones stay in use", "error", err)
		}
		s.stats.Err = err
		return s.current
	}
	s.stats.Reloads++
	s.use(c)
	s.log.Info("TLS files loaded again", "certificate", s.options.Certificate)
	return c
}

// use makes c the current content. The caller holds s.mu, or has the only reference.
func (s *Store) use(c *content) {
	s.current, s.stats.Err = c, nil
	s.stats.NotAfter, s.stats.NextUpdate = time.Time{}, c.lists.nextUpdate()
	if c.certificate != nil {
		s.stats.NotAfter = c.certificate.Leaf.NotAfter
	}
}

// files lists all files of the options.
func (o *Options) files() []string {
	all := append([]string{o.Certificate, o.Key}, o.Authorities...)
	return append(all, o.Revocations...)
}

// A stamp changes with a file's content. The zero value is a file that cannot be read.
type stamp struct {
	dev, ino           uint64
	size               int64
	modified, changed  syscall.Timespec
	mode, owner, group uint32
}

// stamps returns the stamps of files, following symbolic links.
func stamps(files []string) []stamp {
	all := make([]stamp, len(files))
	for i, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		all[i] = stampOf(info)
	}
	return all
}

func stampOf(info fs.FileInfo) stamp {
	st := info.Sys().(*syscall.Stat_t)
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim, st.Mode, st.Uid, st.Gid}
}

func equal(a, b []stamp) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
