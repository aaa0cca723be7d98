// A small certificate authority: its own certificate, those of servers and clients, revocation.

package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lifetimes in days.
const (
	AuthorityDays = 3653 // ten years
	LeafDays      = 365
	ListDays      = 365
)

// backdate makes new certificates valid on hosts whose clocks are behind.
const backdate = time.Hour

// Files of an authority, in its directory.
const (
	AuthorityFile = "ca.crt"
	ListFile      = "ca.crl"
	authorityKey  = "ca.key"
)

// A Usage is the purpose of a certificate.
type Usage uint8

// The purposes.
const (
	ForServer Usage = iota
	ForClient
)

// A CA is a certificate authority in a directory.
type CA struct {
	dir         string
	certificate *x509.Certificate
	key         crypto.Signer
}

// CreateCA makes an authority's key and certificate in dir, which it creates with mode 0700.
// Existing files are an error, unless replace is set.
func CreateCA(dir, name string, days int, replace bool) (*CA, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.AddDate(0, 0, days),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the authority: %w: name another", err)
	}
	err = writePair(filepath.Join(dir, authorityKey), filepath.Join(dir, AuthorityFile), keyPEM, certificatePEM(der), replace)
	if err != nil {
		return nil, err
	}
	return OpenCA(dir)
}

// OpenCA reads an authority's files.
func OpenCA(dir string) (*CA, error) {
	certFile, keyFile := filepath.Join(dir, AuthorityFile), filepath.Join(dir, authorityKey)
	if _, err := os.Stat(certFile); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no authority is in %s: make one, or name its directory", dir)
	}
	pair, err := loadPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	switch {
	case !ok || !pair.Leaf.IsCA:
		return nil, fmt.Errorf("%s is not the certificate of an authority: name the authority's directory", certFile)
	case time.Now().After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("authority %s expired on %s: make a new one", certFile, date(pair.Leaf.NotAfter))
	}
	return &CA{dir, pair.Leaf, key}, nil
}

// Certificate returns the authority's certificate.
func (a *CA) Certificate() *x509.Certificate { return a.certificate }

// Issue makes a key and a certificate for names, in the files base.key and base.crt in the
// authority's directory. A name is a DNS name, an IP address, an email address or a URI. The
// certificate does not outlive the authority. Existing files are an error, unless replace is set.
func (a *CA) Issue(u Usage, base string, names []string, days int, replace bool) (certFile, keyFile string, err error) {
	if base != filepath.Base(base) || base == "." || base+".key" == authorityKey {
		return "", "", fmt.Errorf("a certificate's files cannot be named %q: choose a file name other than the authority's", base)
	}
	template := &x509.Certificate{
		NotBefore:             time.Now().Add(-backdate),
		NotAfter:              time.Now().AddDate(0, 0, days),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if u == ForClient {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	for _, name := range names {
		if err := addName(template, name); err != nil {
			return "", "", err
		}
	}
	// Hosts ignore the common name; people see it in lists. Its limit is 64 characters.
	if len(names) > 0 && len(names[0]) <= 64 {
		template.Subject.CommonName = names[0]
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return "", "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return "", "", fmt.Errorf("certificate: %w", err)
	}
	certFile, keyFile = filepath.Join(a.dir, base+".crt"), filepath.Join(a.dir, base+".key")
	return certFile, keyFile, writePair(keyFile, certFile, keyPEM, certificatePEM(der), replace)
}

// addName adds a subject alternative name.
func addName(c *x509.Certificate, name string) error {
	switch {
	case net.ParseIP(name) != nil:
		c.IPAddresses = append(c.IPAddresses, net.ParseIP(name))
	case strings.Contains(name, "://"):
		u, err := url.Parse(name)
		if err != nil {
			return fmt.Errorf("name %s: %w: write a URI", printable(name), err)
		}
		c.URIs = append(c.URIs, u)
	case strings.Count(name, "@") == 1 && !strings.HasPrefix(name, "@") && !strings.HasSuffix(name, "@"):
		c.EmailAddresses = append(c.EmailAddresses, name)
	case isDNSName(name):
		c.DNSNames = append(c.DNSNames, name)
	default:
		return fmt.Errorf("name %q is no host name, IP address, email address or URI: correct it", name)
	}
	return nil
}

// isDNSName reports whether a name can be a host's. A certificate for RPC-with-TLS MUST NOT have a
// wildcard (RFC 9289 §5.2.1 [R9289-053]).
func isDNSName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
		for _, r := range label {
			if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
				return false
			}
		}
	}
	return true
}

// Revoke adds certificates to the authority's revocation list, and renews the list for days.
// Without certificates it only renews the list. It returns the list's file and number of entries.
func (a *CA) Revoke(certificates []*x509.Certificate, days int) (file string, entries int, err error) {
	unlock, err := a.lock()
	if err != nil {
		return "", 0, err
	}
	defer unlock()
	file = filepath.Join(a.dir, ListFile)
	list := &x509.RevocationList{Number: big.NewInt(1)}
	switch old, err := a.list(file); {
	case err != nil:
		return "", 0, err
	case old != nil:
		list.RevokedCertificateEntries = old.RevokedCertificateEntries
		list.Number.Add(old.Number, list.Number)
	}
	revoked := map[string]bool{}
	for _, e := range list.RevokedCertificateEntries {
		revoked[serial(e.SerialNumber)] = true
	}
	now := time.Now().Truncate(time.Second)
	for _, c := range certificates {
		if c.CheckSignatureFrom(a.certificate) != nil || bytes.Equal(c.Raw, a.certificate.Raw) {
			return "", 0, fmt.Errorf("the certificate of %s is not from the authority %s: name its authority's directory", subject(c), subject(a.certificate))
		}
		if revoked[serial(c.SerialNumber)] {
			continue
		}
		revoked[serial(c.SerialNumber)] = true
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: now})
	}
	list.ThisUpdate, list.NextUpdate = now.Add(-backdate), now.AddDate(0, 0, days)
	der, err := x509.CreateRevocationList(rand.Reader, list, a.certificate, a.key)
	if err != nil {
		return "", 0, fmt.Errorf("revocation list: %w", err)
	}
	err = write(file, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), 0o644, true)
	return file, len(list.RevokedCertificateEntries), err
}

// lock waits until no other process changes the authority's list, so that no revocation is lost.
func (a *CA) lock() (unlock func(), err error) {
	d, err := os.Open(a.dir)
	if err != nil {
		return nil, fmt.Errorf("directory of the authority: %w", err)
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		d.Close()
		return nil, fmt.Errorf("directory of the authority: lock: %w", err)
	}
	return func() { d.Close() }, nil
}

// list returns the authority's present list; nil if there is none.
func (a *CA) list(file string) (*x509.RevocationList, error) {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	b, err := readFile(file, "revocation list")
	if err != nil {
		return nil, err
	}
	lists, err := parseLists(file, b)
	if err != nil {
		return nil, err
	}
	if len(lists) != 1 || lists[0].list.CheckSignatureFrom(a.certificate) != nil || lists[0].list.Number == nil {
		return nil, fmt.Errorf("%s is not a list of this authority: move it away, and revoke again", file)
	}
	return lists[0].list, nil
}

// newKey makes a key that every TLS library can use: ECDSA on P-256.
func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("private key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("private key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
