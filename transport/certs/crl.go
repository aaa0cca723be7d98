// Revocation lists (RFC 5280 §5): parsing, and the check of a peer's certificate chains.

package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// A revocation is one list, with the serial numbers of its certificates.
type revocation struct {
	file    string
	list    *x509.RevocationList
	serials map[string]time.Time // revoked when
}

// revocations are all lists of a store; the nil value checks nothing.
type revocations []*revocation

// parseLists parses a file: one list in DER form, or any number in PEM form.
func parseLists(name string, b []byte) (all revocations, err error) {
	if !bytes.Contains(b, []byte("-----BEGIN ")) {
		r, err := parseList(name, b)
		if err != nil {
			return nil, err
		}
		return revocations{r}, nil
	}
	for n := 1; ; n++ {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("%s: block %d is a %s, not an X509 CRL: name a file of revocation lists", name, n, printable(block.Type))
		}
		r, err := parseList(name, block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	// pem.Decode skips a damaged block: its revocations would be lost silently.
	if len(all) == 0 || bytes.Contains(b, []byte("-----BEGIN ")) {
		return nil, fmt.Errorf("%s: revocation list %d is missing or damaged: fetch it again", name, len(all)+1)
	}
	return all, nil
}

func parseList(name string, der []byte) (*revocation, error) {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("%s is not a revocation list: %w: fetch it again", name, err)
	}
	if list.NextUpdate.IsZero() {
		return nil, fmt.Errorf("%s: a revocation list without an end (next update): have the authority make one with it", name)
	}
	// A critical extension can make a list partial (RFC 5280 §5.2.4, §5.2.5): other certificates
	// would pass unchecked.
	for _, e := range list.Extensions {
		if e.Critical {
			return nil, fmt.Errorf("%s: a partial revocation list (extension %v): fetch the complete list", name, e.Id)
		}
	}
	r := &revocation{file: name, list: list, serials: make(map[string]time.Time, len(list.RevokedCertificateEntries))}
	for _, e := range list.RevokedCertificateEntries {
		for _, x := range e.Extensions {
			if x.Critical {
				return nil, fmt.Errorf("%s: an indirect revocation list (extension %v): fetch a list of the authority's own", name, asn1.ObjectIdentifier(x.Id))
			}
		}
		r.serials[serial(e.SerialNumber)] = e.RevocationTime
	}
	return r, nil
}

func serial(n *big.Int) string { return n.Text(16) }

// nextUpdate returns when the first list expires; zero without lists.
func (rs revocations) nextUpdate() (first time.Time) {
	for _, r := range rs {
		if first.IsZero() || r.list.NextUpdate.Before(first) {
			first = r.list.NextUpdate
		}
	}
	return first
}

// check refuses chains with a revoked certificate, the leaf first. The leaf's issuer must have a
// list that is valid now. The issuers above it need no list, but one that is present must be valid
// too.
func (rs revocations) check(chains [][]*x509.Certificate, now time.Time) error {
	if len(rs) == 0 {
		return nil
	}
	for _, chain := range chains {
		for i := range len(chain) - 1 {
			if err := rs.checkOne(chain[i], chain[i+1], i == 0, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOne checks a certificate against its issuer's latest list.
func (rs revocations) checkOne(c, issuer *x509.Certificate, needed bool, now time.Time) error {
	r := rs.of(issuer)
	switch {
	case r == nil && needed:
		return failure(ReasonCRL, "no revocation list is from %s, the issuer of %s: add its list", subject(issuer), subject(c))
	case r == nil:
		return nil
	case now.After(r.list.NextUpdate):
		return failure(ReasonCRL, "revocation list %s of %s expired on %s: fetch or make a new one", r.file, subject(issuer), date(r.list.NextUpdate))
	case now.Before(r.list.ThisUpdate):
		return failure(ReasonCRL, "revocation list %s of %s begins on %s: check the clock", r.file, subject(issuer), date(r.list.ThisUpdate))
	}
	if when, ok := r.serials[serial(c.SerialNumber)]; ok {
		return failure(ReasonRevoked, "the certificate of %s was revoked on %s: use another", subject(c), date(when))
	}
	return nil
}

// of returns the latest list signed by an issuer, or nil. Two authorities can share a name, so the
// signature decides.
func (rs revocations) of(issuer *x509.Certificate) (latest *revocation) {
	for _, r := range rs {
		if !bytes.Equal(r.list.RawIssuer, issuer.RawSubject) || latest != nil && !r.list.ThisUpdate.After(latest.list.ThisUpdate) {
			continue
		}
		if r.list.CheckSignatureFrom(issuer) == nil {
			latest = r
		}
	}
	return latest
}
