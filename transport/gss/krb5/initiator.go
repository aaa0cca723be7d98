// The initiator's end of context creation.

package krb5

import (
	"context"
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// contextFlags are those that Linux's rpc.gssd requests: no replay detection and no ordering,
// because RPCSEC_GSS has both, and no delegation.
const contextFlags = contextMutual | contextConf | contextInteg

// An Initiator creates one context with a service. It is not safe for concurrent use.
type Initiator struct {
	credentials *Credentials
	host        string
	service     name // without host and realm before Start

	ticket  ticket
	session key
	subkey  key
	seq     uint32
	at      time.Time // the authenticator's time
	now     func() time.Time
}

var _ gss.Initiator = (*Initiator)(nil)

// Initiator returns an initiator for service@host, such as nfs and a file server's name. The
// principal is service/host, with the realm from domain_realm.
func (c *Credentials) Initiator(service, host string) *Initiator {
	return &Initiator{credentials: c, host: host, service: name{kind: nameServiceHost, parts: []string{service}}, now: time.Now}
}

// Start gets a ticket, which may take exchanges with KDCs, and returns the AP-REQ.
func (i *Initiator) Start(ctx context.Context) ([]byte, error) {
	hosts, err := i.credentials.conf.hostNames(ctx, i.host)
	if err != nil {
		return nil, asGSS(gss.Failure, err)
	}
	for n, host := range hosts {
		i.service.parts = []string{i.service.parts[0], host}
		i.service.realm = i.credentials.conf.RealmOf(host)
		if i.ticket, err = i.credentials.ticket(ctx, i.service); err == nil {
			break
		}
		if n+1 == len(hosts) || !serviceUnknown(err) {
			return nil, err
		}
	}
	if i.session, err = newKey(i.ticket.key.enctype, i.ticket.key.value); err != nil {
		return nil, asGSS(gss.Failure, err)
	}
	i.subkey, i.seq = newSubkey(i.session.et)
	i.at = i.now().UTC().Truncate(time.Microsecond)
	return frame(idAPReq, i.request()), nil
}

// serviceUnknown reports whether a KDC does not know the service.
func serviceUnknown(err error) bool {
	var e *gss.Error
	return errors.As(err, &e) && e.Minor == minorBase+CodeServiceUnknown
}

// request encodes the AP-REQ with its authenticator.
func (i *Initiator) request() []byte {
	plain := authenticator{
		client:       i.ticket.client,
		checksumType: checksumGSS,
		checksum:     newChecksum(contextFlags),
		at:           i.at,
		seq:          i.seq,
	}.marshal(i.subkey)
	sealed := newSealKey(i.session, usageAuthenticator).seal(nil, nil, plain)
	return marshalAPReq(optionMutual, i.ticket.encoded, encrypted{enctype: i.session.et.id, cipher: sealed})
}

// Finish checks the AP-REP: only the service can read the time of the authenticator. A refused
// ticket is forgotten, so that the next initiator gets a new one.
func (i *Initiator) Finish(reply []byte) (gss.Context, error) {
	id, message, mech, ok := unframe(reply)
	switch {
	case !ok || !mech:
		return nil, gssError(gss.DefectiveToken, "the reply is not a token of Kerberos 5")
	case id == idError:
		i.credentials.forget(i.service)
		return nil, i.refusal(message)
	case id != idAPRep:
		return nil, gssError(gss.DefectiveToken, "the reply is not an AP-REP")
	}
	p, err := i.open(message)
	if err != nil {
		return nil, err
	}
	s := setup{peer: i.ticket.server.String(), expires: i.ticket.end, key: i.subkey, seq: uint64(i.seq)}
	if p.subkey.enctype != 0 {
		if s.key, err = newKey(p.subkey.enctype, p.subkey.value); err != nil {
			return nil, asGSS(gss.Failure, err)
		}
		s.acceptorSubkey = true
	}
	return newContext(s), nil
}

// open decrypts and checks an AP-REP (RFC 4120 §3.2.5).
func (i *Initiator) open(message []byte) (apRep, error) {
	e, err := parseAPRep(message)
	if err != nil {
		return apRep{}, gssError(gss.DefectiveToken, "the AP-REP is malformed")
	}
	if e.enctype != i.session.et.id {
		return apRep{}, krbError(gss.Failure, CodeIntegrity, "the AP-REP is encrypted with %s", EnctypeName(e.enctype))
	}
	plain, err := newSealKey(i.session, usageAPRep).open(append([]byte(nil), e.cipher...))
	if err != nil {
		return apRep{}, krbError(gss.Failure, CodeIntegrity, "the AP-REP does not match the ticket's session key")
	}
	p, err := parseAPRepPart(plain)
	if err != nil {
		return apRep{}, gssError(gss.DefectiveToken, "the AP-REP's encrypted part is malformed")
	}
	if !p.at.Equal(i.at) {
		return apRep{}, krbError(gss.Failure, apMutualFail, "the AP-REP answers another AP-REQ: %s is not authenticated", i.ticket.server)
	}
	return p, nil
}

// refusal turns the service's KRB-ERROR, which is not authenticated, into an error.
func (i *Initiator) refusal(message []byte) error {
	e, err := parseError(message)
	if err != nil {
		return gssError(gss.DefectiveToken, "the KRB-ERROR is malformed")
	}
	what := map[int32]string{
		CodeSkew:            "the clocks differ too much: set both by NTP",
		CodeNoKey:           "its keytab has no key for the ticket",
		CodeKeyVersion:      "its keytab has no key of the ticket's version: extract the keytab again",
		CodeIntegrity:       "its keytab's key does not open the ticket: extract the keytab again",
		apTicketExpired:     "the ticket expired",
		apTicketNotYetValid: "the ticket is not yet valid there: set both clocks by NTP",
		apRepeat:            "the request is a repetition",
	}[e.code]
	if what == "" {
		what = "Kerberos error"
	}
	return krbError(gss.Failure, e.code, "%s refuses the ticket: %s (%d, its clock: %v)", i.service, what, e.code, e.at.UTC())
}
