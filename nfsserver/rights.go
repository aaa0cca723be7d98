// A caller's rights in an export: decided once for each connection and export, and read in each
// call.

package nfsserver

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// rights are a client's rights in an export, and its users' mapping. They do not change.
type rights struct {
	readOnly bool
	async    bool // changes of names and attributes are answered before they are stable
	secure   bool // TCP needs a reserved source port
	root     bool // root stays root
	noACL    bool // NFSACL is refused
	all      bool // all users act as anon
	anon     Cred
	export   *export

	security    exports.Security // demands on the client's calls
	flavors     []flavorRights   // with sec=: in the rule's order
	wrongCert   bool             // the rule refuses the client's certificate
	uncertified *rights          // these with wrongCert; nil: the rule accepts all certificates
}

// openRights returns the rights of all clients in an export without rules.
func (s *Server) openRights(x *export, readOnly bool) rights {
	q := &s.squash
	r := rights{export: x, readOnly: readOnly, async: s.async, root: q.NoRootSquash, anon: Cred{UID: Nobody, GID: Nobody}}
	if q.All {
		r.all, r.anon = true, Cred{UID: q.UID, GID: q.GID, GIDs: q.GIDs}
	}
	own := r
	r.secured(&exports.Options{Security: s.security}, func(exports.Access) *rights { may := own; return &may })
	return r
}

// clientRights returns a client's rights under the rules. A server without privileges acts as one
// user, regardless of the rules.
func (s *Server) clientRights(x *export, o *exports.Options, readOnly bool) *rights {
	with := func(a exports.Access) *rights {
		r := rights{export: x, readOnly: readOnly || a.ReadOnly, async: o.Async, secure: a.Secure, noACL: o.NoACL}
		switch q := &s.squash; {
		case q.All:
			r.root, r.all, r.anon = q.NoRootSquash, true, Cred{UID: q.UID, GID: q.GID, GIDs: q.GIDs}
		case o.HasCertID:
			r.all, r.anon = true, Cred{UID: o.CertUID, GID: o.CertGID}
		default:
			r.root, r.all, r.anon = a.NoRootSquash, a.AllSquash, Cred{UID: o.AnonUID, GID: o.AnonGID}
		}
		return &r
	}
	r := with(o.Access)
	r.secured(o, with)
	return r
}

// namedFor is a decision's lifetime if it depends on host names. After that time the Resolver is
// called again.
const namedFor = 5 * time.Second

// A decision is a client's rights in an export. The zero value is no decision.
type decision struct {
	may   *rights
	err   error     // the error for the client, instead of rights
	until time.Time // zero: valid as long as the table
	// The connection's TLS state at the decision: a connection can begin TLS later.
	tls *tls.ConnectionState
}

// valid reports whether d is a decision for a connection in this TLS state, and has not expired.
func (d *decision) valid(now *tls.ConnectionState) bool {
	return (d.may != nil || d.err != nil) && d.tls == now && (d.until.IsZero() || time.Now().Before(d.until))
}

// decisions are a connection's decisions in a table, by slot. A new decision goes into a copy, so
// readers need no lock.
type decisions struct {
	t  *table
	of []decision
}

// A memo holds the server's state of a connection, in Call.Memo.
type memo struct {
	began     time.Time // set once
	decisions atomic.Pointer[decisions]
	users     users
}

// memoOf returns the memo for a call's connection; nil without a connection.
func memoOf(c *transport.Call) *memo {
	if c.Memo == nil {
		return nil
	}
	if m, ok := c.Memo.Load().(*memo); ok {
		return m
	}
	c.Memo.CompareAndSwap(nil, &memo{began: time.Now()}) // unless another call has stored a memo
	return c.Memo.Load().(*memo)
}

// rights returns the client's rights in entry e of its table, for calls of any flavor. Errors:
// NFS3ERR_ACCES if no rule matches the client, NFS3ERR_PERM for an unreserved port, NFS3ERR_JUKEBOX
// while the client's name is being looked up. It allocates nothing once the connection has a
// decision. The decisions also show which exports the connection uses (monitoring.go).
func (s *Server) rights(c *transport.Call, e *entry) (*rights, error) {
	t := e.t
	var known *decisions
	m := memoOf(c)
	if m != nil {
		known = m.decisions.Load()
	}
	if known != nil && known.t == t {
		if d := &known.of[e.slot]; d.valid(c.Channel.TLS) {
			return d.may, d.err
		}
	}
	d, final := decision{may: &e.open}, true
	if e.rules != nil {
		d, final = s.decide(c, e)
	}
	d.tls = c.Channel.TLS
	if m != nil && final {
		next := &decisions{t: t, of: make([]decision, len(t.entries))}
		if known != nil && known.t == t {
			copy(next.of, known.of)
		}
		next.of[e.slot] = d
		m.decisions.Store(next) // a decision lost to a concurrent store is made again
	}
	return d.may, d.err
}

// decide applies the rules. final is false for a decision that later calls do not share: while the
// client's name is being looked up, for instance.
func (s *Server) decide(c *transport.Call, e *entry) (d decision, final bool) {
	addr, ok := addrOf(c.Remote)
	if !ok {
		return decision{err: nfs3.ErrAcces}, true // a network without IP addresses: no rule matches
	}
	m := e.rules.Match(addr, s.names)
	if m.ByName {
		d.until = time.Now().Add(namedFor)
	}
	final = true
	var why transport.Cause
	switch may := e.of[m.Client]; {
	case m.Pending:
		return decision{err: ErrBusy}, false
	case may == nil:
		s.refused.client.Add(1)
		d.err, why = nfs3.ErrAcces, "the exports file names no client with this address"
	case may.portMatters() && s.fromOpenPort(c):
		// A call with RPCSEC_GSS counts as remote, but the connection's other calls may have a
		// local owner: do not share this decision with them.
		final = !isGSS(c.Cred.Flavor)
		s.refused.port.Add(1)
		d.err, why = nfs3.ErrPerm, "its source port is not below 1024: mount as root, or export with insecure"
	case may.uncertified != nil && !accepts(&may.security, c.Channel.TLS):
		d.may = may.uncertified
	default:
		d.may = may
	}
	if why != "" {
		s.log.Warn("client refused: "+why, "peer", c.Remote, "export", e.x.name)
	}
	return d, final
}

// addrOf returns a client's address; an IPv4 address has its 4-byte form.
func addrOf(a net.Addr) (netip.Addr, bool) {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap(), true
	case *net.UDPAddr: // RoCE
		return a.AddrPort().Addr().Unmap(), true
	}
	return netip.Addr{}, false
}

// nameWait bounds a MNT's wait for the client's names, because MOUNT has no status for a later
// retry. nameWaits bounds the number of waiting MNTs, because each occupies a worker.
const (
	nameWait  = 6 * time.Second
	namePoll  = 10 * time.Millisecond
	nameWaits = 8
)

// rightsInTime is rights for a call that may wait for the client's name.
func (s *Server) rightsInTime(c *transport.Call, e *entry) (*rights, error) {
	may, err := s.rights(c, e)
	if !errors.Is(err, ErrBusy) {
		return may, err
	}
	select {
	case s.waits <- struct{}{}:
		defer func() { <-s.waits }()
	default:
		return nil, err
	}
	for end := time.Now().Add(nameWait); errors.Is(err, ErrBusy) && time.Now().Before(end); {
		time.Sleep(namePoll)
		may, err = s.rights(c, e)
	}
	return may, err
}

// above returns the first export above path p that the caller may use, with its path there and the
// caller's rights. The caller has to leave the export. As with mountd, a caller without access to
// the nearest export may have access to another export above it.
func (s *Server) above(c *transport.Call, p string) (e *entry, at string, may *rights, err error) {
	err = nfs3.ErrNoEnt
	for i, outer := range s.table.Load().above(p) {
		if !outer.e.x.enter() {
			return s.above(c, p) // a new table has replaced the table just read
		}
		var why error
		if may, why = s.rightsInTime(c, outer.e); why == nil {
			return outer.e, outer.at, may, nil
		}
		outer.e.x.leave()
		if errors.Is(why, nfs3.ErrPerm) {
			why = nfs3.ErrAcces // MOUNT's status for every refusal
		}
		if i == 0 || errors.Is(why, ErrBusy) {
			err = why
		}
	}
	return nil, "", nil, err
}
