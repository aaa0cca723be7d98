// The security settings of a connection, as users write them.

// Package secure turns the security options of commands and mounts into TLS configurations and
// Kerberos credentials.
package secure

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Settings are the security options. Equal settings compare equal.
type Settings struct {
	Sec     string            // flavors as ParseSec returns them, "krb5:krb5i"; "": the server's choice
	XprtSec transport.XprtSec // of the connections

	// Files in PEM form; "" for the default.
	CACert    string // issuers of server certificates; default: the system's
	Cert, Key string // the client's certificate and key, for mtls
	CRL       string // revoked certificates; default: none are known
	TLSName   string // the name in the server's certificate; default: the server's name

	Keytab    string // keys of this machine; default: KRB5_KTNAME, krb5.conf, /etc/krb5.keytab
	RootCache bool   // root uses its credential cache, not the keytab (rpc.gssd -n)
}

// flavors are the values of sec=, in ascending order of protection.
var flavors = []struct {
	name   string
	flavor oncrpc.Flavor
}{{"sys", oncrpc.FlavorSys}, {"krb5", oncrpc.FlavorKrb5}, {"krb5i", oncrpc.FlavorKrb5i}, {"krb5p", oncrpc.FlavorKrb5p}}

// SecWords returns the words that sec= accepts for one flavor.
func SecWords() (words []string) {
	for _, f := range flavors {
		words = append(words, f.name)
	}
	return words
}

// errSec is the error for an invalid list of flavors.
var errSec = errors.New("must be sys, krb5, krb5i or krb5p, or several with colons between them")

// ParseSec checks a list of flavors with colons between them, and returns it without repetitions.
func ParseSec(list string) (string, error) {
	var words []string
	for word := range strings.SplitSeq(list, ":") {
		if !slices.Contains(SecWords(), word) {
			return "", errSec
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return strings.Join(words, ":"), nil
}

// Flavors returns the flavors in Sec; nil: any.
func (s *Settings) Flavors() (list []oncrpc.Flavor) {
	for word := range strings.SplitSeq(s.Sec, ":") {
		for _, f := range flavors {
			if f.name == word {
				list = append(list, f.flavor)
			}
		}
	}
	return list
}

// Kerberos reports whether the settings demand Kerberos: Sec names flavors, and sys is not among
// them.
func (s *Settings) Kerberos() bool {
	return s.Sec != "" && !slices.Contains(s.Flavors(), oncrpc.FlavorSys)
}

// Check returns an error if the settings contradict each other.
func (s *Settings) Check(write Writer) error {
	for _, f := range []struct{ name, value string }{{"cacert", s.CACert}, {"cert", s.Cert}, {"key", s.Key}, {"crl", s.CRL}, {"tlsname", s.TLSName}} {
		if f.value != "" && s.XprtSec == transport.XprtNone {
			return fmt.Errorf("%s has no effect without TLS: add %s", write(f.name, ""), write("xprtsec", "tls"))
		}
	}
	switch {
	case s.XprtSec == transport.XprtMTLS && (s.Cert == "" || s.Key == ""):
		return fmt.Errorf("%s needs a certificate of this client: add %s and %s", write("xprtsec", "mtls"), write("cert", "FILE"), write("key", "FILE"))
	case s.XprtSec == transport.XprtTLS && (s.Cert != "" || s.Key != ""):
		return fmt.Errorf("%s sends no certificate of this client: write %s", write("xprtsec", "tls"), write("xprtsec", "mtls"))
	case s.CRL != "" && s.CACert == "":
		return fmt.Errorf("%s needs the certificate of the list's authority: add %s", write("crl", ""), write("cacert", "FILE"))
	case s.Sec != "" && !strings.Contains(s.Sec, "krb5") && (s.Keytab != "" || s.RootCache):
		name := "keytab"
		if s.RootCache {
			name = "rootcred"
		}
		return fmt.Errorf("%s has no effect with %s: Kerberos is %s", write(name, ""), write("sec", s.Sec), write("sec", "krb5"))
	}
	return nil
}
