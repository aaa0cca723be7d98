// The acceptor's end of context creation.

package krb5

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// DefaultClockSkew is the tolerated difference of clocks.
const DefaultClockSkew = 5 * time.Minute

// maxToken limits a token from an initiator in bytes. Tickets of Active Directory have at most 64
// KiB.
const maxToken = 72 << 10

// Key usages of the application exchange (RFC 4120 §7.5.1).
const (
	usageTicket        = 2
	usageAuthenticator = 11
	usageAPRep         = 12
)

// AcceptorOptions configure an Acceptor.
type AcceptorOptions struct {
	Keytab    string        // path
	Principal string        // of the keytab, with or without realm; "": any
	ClockSkew time.Duration // 0: DefaultClockSkew
}

// An Acceptor is a service with a keytab. It is safe for concurrent use.
type Acceptor struct {
	keys    *keys
	skew    time.Duration
	replays replayCache
	now     func() time.Time
}

// NewAcceptor reads the keytab. Later changes of the file are noticed.
func NewAcceptor(o AcceptorOptions) (*Acceptor, error) {
	k, err := openKeys(o.Keytab, o.Principal)
	if err != nil {
		return nil, err
	}
	if o.ClockSkew == 0 {
		o.ClockSkew = DefaultClockSkew
	}
	return &Acceptor{keys: k, skew: o.ClockSkew, now: time.Now}, nil
}

var _ gss.Acceptor = (*Acceptor)(nil)

// Accept checks an AP-REQ and answers it with an AP-REP. If it refuses a readable request, it
// returns a KRB-ERROR beside the error. Errors are *gss.Error.
func (a *Acceptor) Accept(token []byte) (gss.Context, []byte, error) {
	request, err := readRequest(token)
	if err != nil {
		return nil, nil, err
	}
	q, code, err := parseAPReq(request)
	if code == apGeneric {
		return nil, nil, gssError(gss.DefectiveToken, "the AP-REQ is malformed")
	}
	if err != nil {
		return nil, nil, krbError(gss.DefectiveToken, code, "the AP-REQ has another version or type")
	}
	ctx, reply, err := a.accept(q)
	if err != nil {
		return nil, a.refusal(q, err), err
	}
	return ctx, reply, nil
}

// readRequest returns the AP-REQ of a first token.
func readRequest(token []byte) ([]byte, error) {
	if len(token) > maxToken {
		return nil, gssError(gss.DefectiveToken, "the token is too long")
	}
	id, request, mech, ok := unframe(token)
	switch {
	case !ok || mech && id != idAPReq:
		return nil, gssError(gss.DefectiveToken, "the token is not an AP-REQ")
	case !mech:
		return nil, gssError(majorBadMech, "the token is of another mechanism than Kerberos 5")
	}
	return request, nil
}

// refusal returns a KRB-ERROR token for an error of accept.
func (a *Acceptor) refusal(q apReq, err error) []byte {
	code := int32(apGeneric)
	if e := (*gss.Error)(nil); errors.As(err, &e) && e.Minor >= minorBase {
		code = int32(e.Minor - minorBase)
	}
	return frame(idError, errorMessage{at: a.now(), code: code, service: q.service}.marshal())
}

// accept checks the ticket and the authenticator (RFC 4120 §3.2.3). Addresses in the ticket are
// ignored.
func (a *Acceptor) accept(q apReq) (*Context, []byte, error) {
	if q.options&optionUseSessionKey != 0 {
		return nil, nil, krbError(gss.Failure, apNoTGT, "user-to-user authentication is not supported")
	}
	now := a.now()
	ticket, realm, err := a.openTicket(q)
	if err != nil {
		return nil, nil, err
	}
	if err := a.checkTicket(ticket, realm, now); err != nil {
		return nil, nil, err
	}
	session, err := newKey(ticket.key.enctype, ticket.key.value)
	if err != nil || q.authenticator.enctype != session.et.id {
		return nil, nil, because(gss.ReasonUnsupported, krbError(gss.Failure, CodeIntegrity, "session key: %s is not supported", EnctypeName(ticket.key.enctype)))
	}
	id := replayOf(q.authenticator.cipher) // decrypting changes the bytes
	auth, err := openAuthenticator(session, q.authenticator.cipher)
	if err != nil {
		return nil, nil, err
	}
	if err := a.checkAuthenticator(auth, ticket, now); err != nil {
		return nil, nil, err
	}
	if q.options&optionMutual == 0 {
		return nil, nil, krbError(gss.Failure, apGeneric, "the client does not ask for mutual authentication")
	}
	if !a.replays.add(id, now, auth.at.Add(a.skew)) {
		return nil, nil, krbError(gss.Failure, apRepeat, "the AP-REQ of %s is a replay", ticket.client)
	}
	return a.reply(ticket, auth, session)
}

// openTicket decrypts the ticket. The service's name in the ticket is not protected, so it only
// decides which keys are tried first. realm is the opening key's realm.
func (a *Acceptor) openTicket(q apReq) (part ticketPart, realm string, err error) {
	entries := a.keys.current()
	for {
		p, realm, tried := tryKeys(entries, q)
		if p == nil {
			var again bool
			if entries, again = a.keys.reread(); again {
				continue
			}
			return ticketPart{}, "", a.noKey(q, tried)
		}
		part, err := parseTicketPart(p)
		if err != nil {
			return ticketPart{}, "", gssError(gss.DefectiveToken, "the ticket is malformed")
		}
		return part, realm, nil
	}
}

// tryKeys decrypts a copy of the ticket with each key with its enctype and version, the named
// service's keys first. realm is the successful key's realm.
func tryKeys(entries []KeytabEntry, q apReq) (plain []byte, realm string, tried int) {
	for _, named := range []bool{true, false} {
		for _, e := range entries {
			if e.Enctype != q.ticket.enctype || e.name.same(q.service) != named || !sameVersion(e.Version, q.ticket.kvno) {
				continue
			}
			k, err := newKey(e.Enctype, e.value)
			if err != nil {
				continue
			}
			tried++
			if plain, err := newSealKey(k, usageTicket).open(slices.Clone(q.ticket.cipher)); err == nil {
				return plain, e.name.realm, tried
			}
		}
	}
	return nil, "", tried
}

// sameVersion compares key version numbers. A ticket may have none, and old keytabs have only the
// low eight bits.
func sameVersion(entry, ticket uint32) bool {
	return ticket == 0 || entry == ticket || entry < 256 && entry == ticket&0xff
}

// noKey returns the error for a ticket that no key opens, with the cure. tried counts the keys with
// the ticket's enctype and version.
func (a *Acceptor) noKey(q apReq, tried int) error {
	file := a.keys.path
	var named, same bool // the keytab has keys of the service, and of the ticket's enctype
	var newest uint32
	for _, e := range a.keys.current() {
		if e.name.same(q.service) {
			named, same = true, same || e.Enctype == q.ticket.enctype
			newest = max(newest, e.Version)
		}
	}
	switch {
	case !a.keys.wants(q.service):
		return krbError(majorNoCred, CodeNoKey, "the ticket is for %s, and this server takes those for %s alone", q.service, a.keys.wanted())
	case !named:
		return krbError(majorNoCred, CodeNoKey, "the keytab %s has no key of %s: add it by kadmin (ktadd -k %[1]s); klist -ke %[1]s lists the keys", file, q.service)
	case !same:
		return krbError(majorNoCred, CodeNoKey, "the keytab %s has no key of %s for %s: extract one by kadmin (ktadd -k %[1]s); klist -ke %[1]s lists the keys",
			file, q.service, EnctypeName(q.ticket.enctype))
	case tried > 0:
		return because(gss.ReasonKey, krbError(gss.Failure, CodeIntegrity,
			"the keytab %s has another key of %s, version %d, than the KDC: extract it again by kadmin (ktadd -k %[1]s)", file, q.service, q.ticket.kvno))
	case q.ticket.kvno < newest:
		return krbError(majorNoCred, CodeKeyVersion, "the ticket for %s is of version %d, and the keytab %s has the later one %d: get a new ticket by kinit at the client",
			q.service, q.ticket.kvno, file, newest)
	}
	return krbError(majorNoCred, CodeKeyVersion, "the ticket for %s is of version %d, and the keytab %s has the older one %d: extract the key again by kadmin (ktadd -k %[3]s); klist -ke %[3]s lists the keys",
		q.service, q.ticket.kvno, file, newest)
}

// checkTicket checks the ticket's times, flags, and path to this service's realm.
func (a *Acceptor) checkTicket(t ticketPart, realm string, now time.Time) error {
	switch {
	case t.flags&ticketInvalid != 0 || t.start.After(now.Add(a.skew)):
		return krbError(gss.Failure, apTicketNotYetValid, "the ticket of %s is not yet valid", t.client)
	case now.After(t.end.Add(a.skew)):
		return krbError(gss.CredentialsExpired, apTicketExpired, "the ticket of %s expired at %v", t.client, t.end)
	case t.client.realm != realm && len(t.transited) > 0 && t.flags&ticketTransitChecked == 0:
		return krbError(gss.Failure, apIllegalTransit, "the KDC has not checked the realms between %s and %s", t.client, realm)
	}
	return nil
}

func openAuthenticator(session key, cipher []byte) (authenticator, error) {
	plain, err := newSealKey(session, usageAuthenticator).open(cipher)
	if err != nil {
		return authenticator{}, krbError(gss.Failure, CodeIntegrity, "the authenticator does not match the ticket's session key")
	}
	auth, err := parseAuthenticator(plain)
	if err != nil {
		return authenticator{}, gssError(gss.DefectiveToken, "the authenticator is malformed")
	}
	return auth, nil
}

// checkAuthenticator checks the client's name, its clock and the checksum.
func (a *Acceptor) checkAuthenticator(auth authenticator, t ticketPart, now time.Time) error {
	if !auth.client.same(t.client) {
		return krbError(gss.Failure, apBadMatch, "the authenticator is of %s, the ticket of %s", auth.client, t.client)
	}
	if d := now.Sub(auth.at); d > a.skew || d < -a.skew {
		return krbError(gss.Failure, CodeSkew, "the clock of %s differs by %v, more than %v: set both clocks by NTP", t.client, d.Round(time.Second), a.skew)
	}
	if auth.checksumType != checksumGSS {
		return krbError(gss.Failure, apInappChecksum, "the authenticator of %s has no GSS-API checksum", t.client)
	}
	flags, ok := parseChecksum(auth.checksum)
	switch {
	case !ok:
		return krbError(gss.DefectiveToken, apInappChecksum, "the GSS-API checksum is malformed")
	case flags&contextMutual == 0 || flags&contextDCE != 0:
		return krbError(gss.Failure, apGeneric, "the client does not ask for mutual authentication in two tokens")
	}
	return nil
}

// reply makes the context and the AP-REP, with a new subkey.
func (a *Acceptor) reply(t ticketPart, auth authenticator, session key) (*Context, []byte, error) {
	et := session.et
	if auth.subkey.enctype != 0 { // the initiator chooses the enctype
		k, err := newKey(auth.subkey.enctype, auth.subkey.value)
		if err != nil {
			return nil, nil, krbError(gss.Failure, apGeneric, "subkey: %s is not supported", EnctypeName(auth.subkey.enctype))
		}
		et = k.et
	}
	subkey, seq := newSubkey(et)
	part := apRep{at: auth.at, seq: seq}.marshal(subkey)
	sealed := newSealKey(session, usageAPRep).seal(nil, nil, part)
	token := frame(idAPRep, marshalAPRep(encrypted{enctype: session.et.id, cipher: sealed}))
	return newContext(setup{
		peer: t.client.String(), expires: t.end.Add(a.skew),
		key: subkey, acceptorSubkey: true, acceptor: true, seq: uint64(seq),
	}), token, nil
}

// newSubkey returns a random key and a random sequence number. The number has 30 bits, because old
// peers decode larger ones as negative.
func newSubkey(et *enctype) (key, uint32) {
	b := make([]byte, et.keySize+4)
	_, _ = rand.Read(b) // does not fail
	return key{et, b[4:]}, binary.BigEndian.Uint32(b) >> 2
}
