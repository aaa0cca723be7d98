// Security: what a call to an export's files must prove, by its flavor and its connection.

package nfsserver

import (
	"crypto/sha256"
	"crypto/tls"
	"path"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// The demands of sec=, xprtsec= and the certificate options hold for NFS and NFSACL, as with knfsd.
// Other programs have weaker clients: Linux's clients of MOUNT, the port mapper, NLM and NSM use
// AUTH_SYS in clear, whatever NFS uses. MOUNT gives away names and handles, which are useless
// without NFS. NLM gives away locks.

// A weakness is a demand that a call does not meet.
type weakness uint8

const (
	strong      weakness = iota
	weakChannel          // its connection is not protected enough (xprtsec=)
	wrongCert            // its certificate is not one of the rule's (cert=, ca=)
	weakFlavor           // its flavor is not one of the rule's (sec=)
)

// weakness compares a call with its client's rule.
func (r *rights) weakness(c *transport.Call) weakness {
	switch {
	case c.Channel.Level() < r.security.XprtSec:
		return weakChannel
	case r.wrongCert:
		return wrongCert
	case r.flavor(c.Cred.Flavor) == nil:
		return weakFlavor
	}
	return strong
}

// A flavorRights has the rights of calls with one flavor.
type flavorRights struct {
	flavor oncrpc.Flavor
	may    *rights
}

// flavor returns the rights of calls with flavor f; nil: the rule refuses it. A rule without sec=
// accepts AUTH_SYS and AUTH_NONE.
func (r *rights) flavor(f oncrpc.Flavor) *rights {
	if r.flavors == nil {
		if isGSS(f) {
			return nil
		}
		return r
	}
	for i := range r.flavors {
		if r.flavors[i].flavor == f {
			return r.flavors[i].may
		}
	}
	return nil
}

// isGSS reports whether a flavor proves its user: it is a pseudo-flavor of RPCSEC_GSS.
func isGSS(f oncrpc.Flavor) bool { return f > oncrpc.FlavorSys }

// listsGSS reports whether the rule accepts a flavor of RPCSEC_GSS.
func (r *rights) listsGSS() bool {
	for i := range r.flavors {
		if isGSS(r.flavors[i].flavor) {
			return true
		}
	}
	return false
}

// secured sets the fields of r that derive from a rule's options. For each flavor with its own
// access it makes other rights.
func (r *rights) secured(o *exports.Options, with func(exports.Access) *rights) {
	r.security = o.Security
	for _, f := range o.Flavors() {
		may := with(f.Access)
		may.security = r.security
		r.flavors = append(r.flavors, flavorRights{f.Flavor, may})
	}
	if o.HasCA || o.Cert != "" {
		other := *r
		other.wrongCert = true
		r.uncertified = &other
	}
}

// mountFlavors returns a rule's flavors for MNT, in the rule's order.
func (r *rights) mountFlavors() (list []uint32) {
	if r.flavors == nil {
		return flavors
	}
	for i := range r.flavors {
		list = append(list, uint32(r.flavors[i].flavor))
	}
	return list
}

// portMatters reports whether a client needs a reserved source port, even for MNT. A client that
// may use RPCSEC_GSS does not: its calls prove their user, and its MNT comes first, without proof.
func (r *rights) portMatters() bool { return r.secure && !r.listsGSS() }

// strongEnough reports whether a call may use the export of its handle. It logs the reasons against
// it. Calls without an export, or of a client without rights there, pass: the procedure refuses
// them. atMount: the call may be of a mount that has not chosen its flavor yet.
func (s *Server) strongEnough(c *transport.Call, atMount bool) bool {
	args := *c.Args
	fh := args.Opaque(nfs3.FHSize)
	id, ok := handleExport(fh)
	if args.Err() != nil || !ok {
		return true
	}
	e := s.table.Load().byID[id]
	if e == nil {
		return true
	}
	may, err := s.rights(c, e)
	if err != nil {
		return true
	}
	w := may.weakness(c)
	if w == strong || atMount && w == weakFlavor && may.mayBeginMount(c) && s.isRoot(e, fh) {
		return true
	}
	s.logWeak(c, e, may, w)
	return false
}

// mayBeginMount reports whether a call can be of a client that has not chosen its flavor yet. Such
// a client reads the root's attributes and FSINFO with AUTH_SYS, and may get them (RFC 2623
// §2.3.2).
func (r *rights) mayBeginMount(c *transport.Call) bool {
	return r.listsGSS() && !isGSS(c.Cred.Flavor) && r.security.XprtSec <= c.Channel.Level()
}

// isRoot reports whether a handle is of the root of the export or tree. A handle of one that is not
// open yet counts, too.
func (s *Server) isRoot(e *entry, fh []byte) bool {
	h, err := nfs3.MakeFH(fh)
	if err != nil || !e.x.ready.Load() {
		return err == nil
	}
	r, err := s.ref(e.x, &h)
	if err == nil && e.x.trees != nil {
		tree, _ := handleTree(fh)
		root, open := e.x.trees.root(tree)
		return !open || r == root
	}
	return err == nil && r == e.x.root
}

// strongRights returns the caller's rights in the entry for the call's flavor. Errors: those of
// rights, NFS3ERR_ACCES for a weak call, and NFS3ERR_PERM for a flavor that needs a reserved port.
func (s *Server) strongRights(c *transport.Call, e *entry) (*rights, weakness, error) {
	may, err := s.rights(c, e)
	if err != nil {
		return nil, strong, err
	}
	if w := may.weakness(c); w != strong {
		return may, w, nfs3.ErrAcces
	}
	if may = may.flavor(c.Cred.Flavor); may.secure && !isGSS(c.Cred.Flavor) && s.fromOpenPort(c) {
		s.refused.port.Add(1)
		return nil, strong, nfs3.ErrPerm
	}
	return may, strong, nil
}

// fromOpenPort reports whether a call comes over TCP from a port that any user of another machine
// can have.
func (s *Server) fromOpenPort(c *transport.Call) bool {
	return !c.RDMA && s.owner(c).Kind == transport.OwnerRemote && port(c.Remote) >= reservedPorts
}

// namesUser reports whether a call's credential gives a user.
func namesUser(c *transport.Cred) bool {
	return c.Flavor == oncrpc.FlavorSys || isGSS(c.Flavor) && c.UID != idmap.Anonymous
}

// accepts reports whether the rule accepts a connection's verified certificate.
func accepts(r *exports.Security, state *tls.ConnectionState) bool {
	if state == nil || len(state.VerifiedChains) == 0 {
		return false
	}
	return (!r.HasCA || hasAuthority(r, state)) && (r.Cert == "" || hasName(r.Cert, state))
}

// hasAuthority reports whether a verified chain has the rule's authority above the client's own
// certificate.
func hasAuthority(r *exports.Security, state *tls.ConnectionState) bool {
	for _, chain := range state.VerifiedChains {
		for _, cert := range chain[1:] {
			if sha256.Sum256(cert.Raw) == r.CA {
				return true
			}
		}
	}
	return false
}

// hasName reports whether one of the certificate's names fits the pattern.
func hasName(pattern string, state *tls.ConnectionState) bool {
	for _, name := range certNames(state) {
		if ok, _ := path.Match(pattern, strings.ToLower(name)); ok && sameKind(pattern, name) { // patterns of a rule are valid
			return true
		}
	}
	return false
}

// sameKind reports whether a pattern can be for a name's kind: wildcards stand for neither @ nor a
// colon. So a pattern for hosts accepts no address of mail and no URI, except the pattern *.
func sameKind(pattern, name string) bool {
	return pattern == "*" || strings.Count(pattern, "@") == strings.Count(name, "@") && strings.Contains(pattern, ":") == strings.Contains(name, ":")
}

// certNames returns the alternative names of a client's certificate.
func certNames(state *tls.ConnectionState) (names []string) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	cert := state.VerifiedChains[0][0]
	names = append(append(names, cert.DNSNames...), cert.EmailAddresses...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	return names
}

// logWeak logs and counts a refusal, with the cure.
func (s *Server) logWeak(c *transport.Call, e *entry, may *rights, w weakness) {
	fields := []any{"peer", c.Remote, "export", e.x.name, "transport", viaName(c)}
	sec := &may.security
	switch w {
	case weakChannel:
		s.refused.channel.Add(1)
		s.log.Warn("call refused: its connection is less protected than the export demands (xprtsec=)",
			append(fields, "has", c.Channel.Level().String(), "needs", exports.XprtSecNames(sec.XprtSec), "cure", "mount with xprtsec="+sec.XprtSec.String())...)
	case wrongCert:
		s.refused.certificate.Add(1)
		s.log.Warn("call refused: the client's certificate is not one that the export accepts (cert=, ca=)",
			append(fields, "has", strings.Join(certNames(c.Channel.TLS), " "), "needs", strings.TrimPrefix(certWords(sec), ","), "cure", "give the client a certificate with such a name by that authority")...)
	case weakFlavor:
		s.refused.flavor.Add(1)
		s.log.Warn("call refused: its security flavor is not one of the export's (sec=)",
			append(fields, "has", exports.FlavorName(c.Cred.Flavor), "needs", sec.FlavorNames(), "cure", "mount with sec="+strings.SplitN(sec.FlavorNames(), ":", 2)[0])...)
	}
}

// certWords returns a rule's options about certificates.
func certWords(sec *exports.Security) string {
	only := exports.Security{Cert: sec.Cert, CA: sec.CA, HasCA: sec.HasCA}
	return only.Words()
}
