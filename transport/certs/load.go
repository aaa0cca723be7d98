// Reading certificates, keys and authorities from files.

package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// maxFile limits a file in bytes: the bundle of a distribution has 300 KB.
const maxFile = 16 << 20

// A content is all files at one time, parsed. It is immutable.
type content struct {
	certificate *tls.Certificate // nil: none
	authorities *x509.CertPool   // nil: the system's
	lists       revocations
}

// load reads all files.
func load(o *Options, now time.Time) (*content, error) {
	c := new(content)
	if o.Certificate != "" {
		pair, err := loadPair(o.Certificate, o.Key)
		if err != nil {
			return nil, err
		}
		c.certificate = pair
	}
	var authorities []*x509.Certificate
	for _, name := range o.Authorities {
		b, err := readFile(name, "authority file")
		if err != nil {
			return nil, err
		}
		list, err := parseCertificates(name, b)
		if err != nil {
			return nil, err
		}
		authorities = append(authorities, list...)
	}
	if len(o.Authorities) > 0 {
		c.authorities = x509.NewCertPool()
	}
	for _, a := range authorities {
		c.authorities.AddCert(a)
	}
	for _, name := range o.Revocations {
		b, err := readFile(name, "revocation list")
		if err != nil {
			return nil, err
		}
		lists, err := parseLists(name, b)
		if err != nil {
			return nil, err
		}
		c.lists = append(c.lists, lists...)
	}
	return c, nil
}

// config returns the part of a configuration that servers and clients share.
func (c *content) config(now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{Protocol},
		Time:       now,
		// A resumed session would skip the check of certificates against changed files.
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			return c.lists.check(cs.VerifiedChains, now())
		},
	}
}

func (c *content) certificates() []tls.Certificate {
	if c.certificate == nil {
		return nil
	}
	return []tls.Certificate{*c.certificate}
}

// readFile reads a regular file, or a link to one.
func readFile(name, kind string) ([]byte, error) {
	b, _, err := readWhole(name, kind)
	return b, err
}

// readWhole reads a regular file, and returns its attributes too.
func readWhole(name, kind string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not block
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("%s %s does not exist: make it, or name another", kind, name)
	case errors.Is(err, fs.ErrPermission):
		return nil, nil, fmt.Errorf("%s %s: permission denied: make it readable for this user", kind, name)
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s %s is not a regular file: name a file", kind, name)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	if len(b) > maxFile {
		return nil, nil, fmt.Errorf("%s %s has more than %d bytes: name another", kind, name, maxFile)
	}
	return b, info, nil
}

// loadPair reads a certificate with its chain, and its private key. An empty keyName means that one
// file has both.
func loadPair(certName, keyName string) (*tls.Certificate, error) {
	if keyName == "" {
		keyName = certName
	}
	cert, err := readFile(certName, "certificate")
	if err != nil {
		return nil, err
	}
	if _, err := parseCertificates(certName, withoutKeys(cert)); err != nil {
		return nil, err
	}
	key, err := readKey(keyName)
	if err != nil {
		return nil, err
	}
	return parsePair(certName, keyName, cert, key)
}

// readKey reads a private key. It refuses a file that other users can read or write.
func readKey(name string) ([]byte, error) {
	b, info, err := readWhole(name, "private key")
	if err != nil {
		return nil, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
		return nil, fmt.Errorf("private key %s belongs to uid %d: chown it to this user", name, st.Uid)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("private key %s can be used by others (mode %04o): chmod 600 it, and replace it if it may be known", name, mode)
	}
	return b, nil
}

// parsePair combines a certificate and its key.
func parsePair(certName, keyName string, cert, key []byte) (*tls.Certificate, error) {
	if bytes.Contains(key, []byte("BEGIN ENCRYPTED PRIVATE KEY")) || bytes.Contains(key, []byte("Proc-Type: 4,ENCRYPTED")) {
		return nil, fmt.Errorf("private key %s has a passphrase: remove it by openssl pkey", keyName)
	}
	pair, err := tls.X509KeyPair(cert, key)
	switch {
	case err == nil:
		return &pair, nil
	case strings.Contains(err.Error(), "does not match"):
		return nil, fmt.Errorf("private key %s does not belong to certificate %s: name the key of this certificate", keyName, certName)
	}
	return nil, fmt.Errorf("private key %s: %w: name a key in PEM form", keyName, err)
}

// parseCertificates parses a bundle with at least one certificate, and with nothing else.
func parseCertificates(name string, b []byte) (all []*x509.Certificate, err error) {
	for n := 1; ; n++ {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s: block %d is a %s, not a CERTIFICATE: name a file of certificates", name, n, printable(block.Type))
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w: make it again", name, n, err)
		}
		all = append(all, c)
	}
	// pem.Decode skips a damaged block: its certificate would be left out silently.
	if len(all) == 0 || bytes.Contains(b, []byte("-----BEGIN ")) {
		return nil, fmt.Errorf("%s: certificate %d is missing or damaged: name a file in PEM form", name, len(all)+1)
	}
	return all, nil
}

// withoutKeys returns the blocks of a PEM file that are not private keys.
func withoutKeys(b []byte) []byte {
	var out bytes.Buffer
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			out.Write(b)
			return out.Bytes()
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") && block.Type != "EC PARAMETERS" {
			pem.Encode(&out, block)
		}
		b = rest
	}
}

// Read returns the certificates in a file, or its revocation lists: one result is empty.
func Read(name string) ([]*x509.RevocationList, []*x509.Certificate, error) {
	b, err := readFile(name, "file")
	if err != nil {
		return nil, nil, err
	}
	if block, _ := pem.Decode(b); block != nil && block.Type == "X509 CRL" || block == nil && bytes.HasPrefix(b, []byte{0x30}) {
		lists, err := parseLists(name, b)
		if err != nil {
			return nil, nil, err
		}
		var all []*x509.RevocationList
		for _, r := range lists {
			all = append(all, r.list)
		}
		return all, nil, nil
	}
	all, err := parseCertificates(name, b)
	return nil, all, err
}
