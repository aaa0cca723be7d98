// Facts of a peer's verified certificate, for rules.

package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"time"
)

// A Fingerprint is the SHA-256 of a certificate in DER form.
type Fingerprint [sha256.Size]byte

// A Peer has the facts in a certificate. The text comes from the owner's request. It is true only
// if the authority has checked it.
type Peer struct {
	Subject     string // RFC 2253 form, such as "CN=pc7,O=Example"
	Fingerprint Fingerprint
	NotAfter    time.Time

	// Subject alternative names
	DNS    []string
	IPs    []netip.Addr
	URIs   []string
	Emails []string

	// Authorities at the ends of the verified chains: more than one if authorities have signed
	// each other.
	Authorities []Authority
}

// An Authority is a trusted authority at the end of a verified chain.
type Authority struct {
	Subject     string
	Fingerprint Fingerprint
}

// PeerOf returns the facts of the peer's certificate, and false if the connection has no verified
// one.
func PeerOf(cs *tls.ConnectionState) (*Peer, bool) {
	if cs == nil || len(cs.VerifiedChains) == 0 {
		return nil, false
	}
	p := factsOf(cs.VerifiedChains[0][0])
	seen := map[Fingerprint]bool{}
	for _, chain := range cs.VerifiedChains {
		root := chain[len(chain)-1]
		a := Authority{root.Subject.String(), sha256.Sum256(root.Raw)}
		if !seen[a.Fingerprint] {
			seen[a.Fingerprint] = true
			p.Authorities = append(p.Authorities, a)
		}
	}
	return p, true
}

// factsOf returns a certificate's own facts.
func factsOf(c *x509.Certificate) *Peer {
	p := &Peer{Subject: c.Subject.String(), Fingerprint: sha256.Sum256(c.Raw), NotAfter: c.NotAfter, DNS: c.DNSNames, Emails: c.EmailAddresses}
	for _, ip := range c.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok {
			p.IPs = append(p.IPs, a.Unmap())
		}
	}
	for _, u := range c.URIs {
		p.URIs = append(p.URIs, u.String())
	}
	return p
}
