// Security of a client's calls: sec=, xprtsec=, and the rules for client certificates.

package exports

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Access has the options that may differ between a client's security flavors.
type Access struct {
	ReadOnly     bool
	Secure       bool // TCP only from ports below 1024
	NoRootSquash bool
	AllSquash    bool
}

// words returns all four options' words.
func (a *Access) words() string {
	return word(a.ReadOnly, "ro", "rw") + word(a.Secure, ",secure", ",insecure") +
		word(a.NoRootSquash, ",no_root_squash", ",root_squash") + word(a.AllSquash, ",all_squash", ",no_all_squash")
}

// Security is the protection that a client's calls need.
type Security struct {
	flavors flavorList

	// XprtSec is the least protection of the connection. A stronger one is accepted, too.
	XprtSec transport.XprtSec
	// Cert is the pattern for a name in the client's certificate, in lower case; "": any name.
	Cert string
	// CA is the SHA-256 digest of an authority that the certificate's chain must contain.
	CA    [32]byte
	HasCA bool
	// With HasCertID all calls have this user and group, which the certificate stands for.
	HasCertID        bool
	CertUID, CertGID uint32
}

// secWord is the field about in option sec=, which alone is allowed several times in a list.
const secWord = "sec"

// flavorNames are the words in sec=.
var flavorNames = map[string]oncrpc.Flavor{
	"none": oncrpc.FlavorNone, "sys": oncrpc.FlavorSys,
	"krb5": oncrpc.FlavorKrb5, "krb5i": oncrpc.FlavorKrb5i, "krb5p": oncrpc.FlavorKrb5p,
}

// FlavorName returns a flavor's word of sec=; "": it has none.
func FlavorName(f oncrpc.Flavor) string {
	for name, flavor := range flavorNames {
		if flavor == f {
			return name
		}
	}
	return ""
}

// A FlavorAccess is a flavor in sec= with its access.
type FlavorAccess struct {
	Flavor oncrpc.Flavor
	Access
}

// A flavorList is an array, because Options are comparable.
type flavorList struct {
	list [5]FlavorAccess // one for each of flavorNames
	n    uint8           // 0: no sec=

	// While a list of options is parsed: its options of Access apply to list[from:n].
	from uint8
	own  bool // a sec= of this list was read, so its options of Access leave Options.Access alone
}

// Flavors returns the flavors of sec= in order of preference; nil without sec=, which stands for
// sys and none.
func (s *Security) Flavors() []FlavorAccess {
	if s.flavors.n == 0 {
		return nil
	}
	return slices.Clone(s.flavors.list[:s.flavors.n])
}

// ParseSecurity parses the values of sec= and xprtsec=, for exports without rules. An empty value
// stands for an option that is not given.
func ParseSecurity(flavors, channel string) (Security, error) {
	var o Options
	if flavors != "" {
		if err := sec(&o, flavors); err != nil {
			return Security{}, fmt.Errorf("sec=%s: %w", flavors, err)
		}
	}
	if channel != "" {
		if err := xprtsec(&o, channel); err != nil {
			return Security{}, fmt.Errorf("xprtsec=%s: %w", channel, err)
		}
	}
	return o.Security, nil
}

// FlavorNames joins the flavors' words by colons, as in sec=; "sys:none" without sec=.
func (s *Security) FlavorNames() string {
	if s.flavors.n == 0 {
		return "sys:none"
	}
	return joinFlavors(s.flavors.list[:s.flavors.n])
}

func joinFlavors(list []FlavorAccess) string {
	var names []string
	for i := range list {
		names = append(names, FlavorName(list[i].Flavor))
	}
	return strings.Join(names, ":")
}

// Words returns Security's options in the file's words, each after a comma.
func (s *Security) Words() (w string) {
	list := s.flavors.list[:s.flavors.n]
	mixed := slices.ContainsFunc(list, func(f FlavorAccess) bool { return f.Access != list[0].Access })
	if len(list) > 0 && !mixed {
		w += ",sec=" + joinFlavors(list)
	}
	for mixed && len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Access == list[0].Access {
			n++
		}
		w += ",sec=" + joinFlavors(list[:n]) + "," + list[0].Access.words()
		list = list[n:]
	}
	if s.XprtSec != transport.XprtNone {
		w += ",xprtsec=" + XprtSecNames(s.XprtSec)
	}
	if s.HasCA {
		w += ",ca=" + hex.EncodeToString(s.CA[:])
	}
	if s.Cert != "" {
		w += ",cert=" + s.Cert
	}
	if s.HasCertID {
		w += fmt.Sprintf(",certid=%d:%d", s.CertUID, s.CertGID)
	}
	return w
}

// XprtSecNames joins the levels from least on by colons, as in xprtsec=.
func XprtSecNames(least transport.XprtSec) string {
	var names []string
	for l := least; l <= transport.XprtMTLS; l++ {
		names = append(names, l.String())
	}
	return strings.Join(names, ":")
}

// access returns an option without a value that sets a field in Access.
func access(about string, set func(a *Access)) option {
	return flag(about, func(o *Options) {
		if !o.flavors.own {
			set(&o.Access)
		}
		for i := o.flavors.from; i < o.flavors.n; i++ {
			set(&o.flavors.list[i].Access)
		}
	})
}

// beginList prepares for a list of options. Words of Access before its first sec= apply to all
// flavors of the line's defaults.
func (o *Options) beginList() { o.flavors.from, o.flavors.own = 0, false }

// beginGroup prepares for a sec= option. The first one of a list replaces the flavors of the line's
// defaults. Later words of Access apply to this option's flavors alone, so each can occur again.
func (o *Options) beginGroup(seen map[string]string) {
	if !o.flavors.own {
		o.flavors = flavorList{own: true}
		return
	}
	o.flavors.from = o.flavors.n
	for _, about := range []string{"access", "secure", "root", "all"} {
		delete(seen, about)
	}
}

// endList ends an option list.
func (o *Options) endList() {
	if f := &o.flavors; f.n > 0 {
		o.Access = f.list[0].Access
	}
	o.flavors.from, o.flavors.own = 0, false
}

// idle returns an option about certificates that has no effect, or "": without xprtsec=mtls a
// client needs no certificate.
func (s *Security) idle() string {
	switch {
	case s.XprtSec == transport.XprtMTLS:
		return ""
	case s.Cert != "":
		return "cert="
	case s.HasCA:
		return "ca="
	case s.HasCertID:
		return "certid="
	}
	return ""
}

// sec parses the value for sec=.
func sec(o *Options, value string) error {
	for name := range strings.SplitSeq(value, ":") {
		flavor, ok := flavorNames[name]
		switch {
		case strings.HasPrefix(name, "lipkey") || strings.HasPrefix(name, "spkm"):
			return errors.New("of the GSS mechanisms only Kerberos is implemented: write krb5, krb5i or krb5p")
		case !ok:
			return fmt.Errorf("%q is none of sys, krb5, krb5i, krb5p, none", name)
		}
		f := &o.flavors
		if slices.ContainsFunc(f.list[:f.n], func(a FlavorAccess) bool { return a.Flavor == flavor }) {
			return fmt.Errorf("%s is given twice: leave one out", name)
		}
		f.list[f.n] = FlavorAccess{flavor, o.Access}
		f.n++
	}
	return nil
}

// xprtsec parses the value for xprtsec=. The weakest listed level decides.
func xprtsec(o *Options, value string) error {
	var given []transport.XprtSec
	for name := range strings.SplitSeq(value, ":") {
		level, err := transport.ParseXprtSec(name)
		if err != nil {
			return err
		}
		if slices.Contains(given, level) {
			return fmt.Errorf("%s is given twice: leave one out", name)
		}
		given = append(given, level)
	}
	o.XprtSec = slices.Min(given)
	return nil
}

// cert parses a pattern for names in certificates.
func cert(o *Options, value string) error {
	if _, err := path.Match(value, ""); err != nil {
		return errors.New("a list of characters begins with [ and ends with ]")
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()"#\`, r) }) {
		return errors.New("must be a name in ASCII without parentheses, quotes and backslashes")
	}
	o.Cert = strings.ToLower(value)
	return nil
}

// ca parses the SHA-256 digest of a certificate, in hexadecimal with or without colons.
func ca(o *Options, value string) error {
	b, err := hex.DecodeString(strings.ReplaceAll(value, ":", ""))
	if err != nil || len(b) != len(o.CA) {
		return errors.New("must be the SHA-256 digest of the authority's certificate: openssl x509 -in ca.pem -noout -fingerprint -sha256 prints it")
	}
	o.HasCA = true
	copy(o.CA[:], b)
	return nil
}

// certID parses UID:GID.
func certID(o *Options, value string) error {
	uid, gid, ok := strings.Cut(value, ":")
	if !ok {
		return errors.New("must be a user and a group, such as 1000:1000")
	}
	if _, err := strconv.ParseUint(uid, 10, 32); err != nil {
		return errID
	}
	if _, err := strconv.ParseUint(gid, 10, 32); err != nil {
		return errID
	}
	if err := id(&o.CertUID, uid); err != nil {
		return err
	}
	o.HasCertID = true
	return id(&o.CertGID, gid)
}
