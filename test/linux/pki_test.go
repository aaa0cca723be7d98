// Certificates for one test: an authority, and the certificates that it issues, good and bad.

package linux

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// authority issues certificates into a directory.
type authority struct {
	t      *testing.T
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// newAuthority writes NAME.pem into dir.
func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Succeed(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must.Succeed(t, err)
	a.key, a.serial = key, 1
	a.write(name+".pem", "CERTIFICATE", der, 0o644)
	return a
}

func (a *authority) write(name, kind string, der []byte, mode os.FileMode) {
	a.t.Helper()
	must.Succeed(a.t, os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode))
}

// issue writes FILE.pem and FILE.key for a host name, and returns the certificate's serial number.
// The certificate is valid until end.
func (a *authority) issue(file, host string, end time.Time) *big.Int {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(a.t, err)
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: file}, DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must.Succeed(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must.Succeed(a.t, err)
	a.write(file+".pem", "CERTIFICATE", der, 0o644)
	a.write(file+".key", "PRIVATE KEY", private, 0o600)
	return template.SerialNumber
}

// revoke writes FILE with a revocation list.
func (a *authority) revoke(file string, serials ...*big.Int) {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(24 * time.Hour)}
	for _, n := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: n, RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	must.Succeed(a.t, err)
	a.write(file, "X509 CRL", der, 0o644)
}
