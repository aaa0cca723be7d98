// Exchanges with KDCs, whose messages gokrb5 encodes and decodes.

package krb5

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// maxReferrals limits the realms on the way to a service.
const maxReferrals = 8

// Numbers from RFC 4120 §7.5.
const (
	errPreauthRequired = 25

	paEncTimestamp = 2
	paEnctypeInfo2 = 19
	paAskEncPARep  = 149 // RFC 6806 §11: the reply then has the request's checksum

	usagePAEncTimestamp = 1
)

// contain runs f and turns a panic into an error: gokrb5, which parses KDCs' messages, might panic.
func contain(f func() (ticket, error)) (t ticket, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = ticket{}, fmt.Errorf("the KDC's message is malformed: %v", p)
		}
	}()
	return f()
}

// A kdcReply is a message of gokrb5.
type kdcReply interface{ Unmarshal(b []byte) error }

// call sends a request to a realm's KDC and decodes the reply. A refusal is a messages.KRBError.
func (c *Config) call(ctx context.Context, realm string, request interface{ Marshal() ([]byte, error) }, into kdcReply) error {
	b, err := request.Marshal()
	if err != nil {
		return err
	}
	if b, err = c.sendToKDC(ctx, realm, b); err != nil {
		return err
	}
	var refusal messages.KRBError
	if refusal.Unmarshal(b) == nil {
		return refusal
	}
	return into.Unmarshal(b)
}

// kdcName converts a name for gokrb5.
func kdcName(n name) types.PrincipalName {
	return types.PrincipalName{NameType: n.kind, NameString: n.parts}
}

// ticketGranting names realm's ticket-granting service, to which the KDC of realm at (the same or
// another one) gives tickets.
func ticketGranting(realm, at string) name {
	return name{kind: nameService, parts: []string{"krbtgt", realm}, realm: at}
}

// login gets a ticket-granting ticket with a keytab's keys (RFC 4120 §3.1).
func (c *Config) login(ctx context.Context, who name, entries []KeytabEntry, file []byte) (ticket, error) {
	var have []int32
	for _, e := range entries {
		have = append(have, e.Enctype)
	}
	return contain(func() (ticket, error) {
		kt := keytab.New()
		if err := kt.Unmarshal(file); err != nil {
			return ticket{}, err
		}
		conf := *c.kdc
		// The KDC chooses one of these for the preauthentication, so the keytab must have its key.
		conf.LibDefaults.DefaultTktEnctypeIDs = slices.DeleteFunc(slices.Clone(conf.LibDefaults.DefaultTktEnctypeIDs),
			func(id int32) bool { return !slices.Contains(have, id) })
		if len(conf.LibDefaults.DefaultTktEnctypeIDs) == 0 {
			return ticket{}, fmt.Errorf("the keytab has no key of %s with an enctype of default_tkt_enctypes", who)
		}
		request, err := messages.NewASReqForTGT(who.realm, &conf, kdcName(who))
		if err != nil {
			return ticket{}, err
		}
		request.PAData = append(request.PAData, types.PAData{PADataType: paAskEncPARep})
		var answer messages.ASRep
		err = c.call(ctx, who.realm, &request, &answer)
		var refusal messages.KRBError
		if errors.As(err, &refusal) && (refusal.ErrorCode == errPreauthRequired || refusal.ErrorCode == CodePreauthFailed) {
			var proof types.PAData
			if proof, err = preauth(refusal.EData, who, kt, conf.LibDefaults.DefaultTktEnctypeIDs); err == nil {
				request.PAData = append(request.PAData, proof)
				err = c.call(ctx, who.realm, &request, &answer)
			}
		}
		if err != nil {
			return ticket{}, kdcError(err, who)
		}
		own := credentials.NewFromPrincipalName(kdcName(who), who.realm).WithKeytab(kt)
		if ok, err := answer.Verify(&conf, own, request); !ok {
			return ticket{}, kdcError(err, who)
		}
		return fromKDC(who, answer.Ticket, answer.DecryptedEncPart)
	})
}

// preauth proves that the client has the key (RFC 4120 §5.2.7.2). demand is the data in the KDC's
// error.
func preauth(demand []byte, who name, kt *keytab.Keytab, enctypes []int32) (types.PAData, error) {
	id, err := preauthEnctype(demand, enctypes)
	if err != nil {
		return types.PAData{}, err
	}
	key, version, err := kt.GetEncryptionKey(kdcName(who), who.realm, 0, id)
	if err != nil {
		return types.PAData{}, err
	}
	now, err := types.GetPAEncTSEncAsnMarshalled()
	if err != nil {
		return types.PAData{}, err
	}
	sealed, err := crypto.GetEncryptedData(now, key, usagePAEncTimestamp, version)
	if err != nil {
		return types.PAData{}, err
	}
	value, err := sealed.Marshal()
	return types.PAData{PADataType: paEncTimestamp, PADataValue: value}, err
}

// preauthEnctype returns the first offered enctype that is also allowed. The offer is not
// authenticated: without the check, anyone on the way to the KDC could choose a weak key.
func preauthEnctype(demand []byte, allowed []int32) (int32, error) {
	var list types.PADataSequence
	if err := list.Unmarshal(demand); err != nil {
		return 0, fmt.Errorf("the KDC's demand for preauthentication is malformed: %w", err)
	}
	for i := range list {
		if list[i].PADataType != paEnctypeInfo2 {
			continue
		}
		offered, err := list[i].GetETypeInfo2()
		if err != nil {
			return 0, fmt.Errorf("the KDC's demand for preauthentication is malformed: %w", err)
		}
		for _, o := range offered {
			if slices.Contains(allowed, o.EType) {
				return o.EType, nil
			}
		}
	}
	return 0, errors.New("the KDC demands preauthentication with an enctype that is not configured")
}

// serviceTicket gets a ticket for a service (RFC 4120 §3.3), through other realms if needed.
// Without a realm the service may be anywhere: the client's KDC refers to its realm.
func (c *Config) serviceTicket(ctx context.Context, tgt ticket, service name, renew bool) (ticket, error) {
	return contain(func() (ticket, error) {
		conf := *c.kdc
		if service.realm == "" {
			service.realm = tgt.client.realm
			conf.LibDefaults.Canonicalize = true
		}
		for range maxReferrals {
			granted := tgt.grants()
			wanted := service
			if !renew && granted != service.realm {
				wanted = ticketGranting(service.realm, granted)
			}
			next, err := c.request(ctx, &conf, tgt, wanted, granted, renew)
			switch {
			case err != nil:
				return ticket{}, err
			case slices.Equal(next.server.parts, service.parts):
				return next, nil
			case next.server.parts[0] != "krbtgt":
				return ticket{}, fmt.Errorf("the KDC has sent a ticket for %s instead of %s", next.server, wanted)
			case next.server.same(tgt.server):
				return ticket{}, fmt.Errorf("there is no path from realm %s to %s", tgt.client.realm, service.realm)
			}
			if granted == service.realm { // a referral (RFC 6806 §8)
				service.realm = next.grants()
			}
			tgt = next
		}
		return ticket{}, fmt.Errorf("there is no path from realm %s to %s", tgt.client.realm, service.realm)
	})
}

// grants returns the realm where a ticket-granting ticket is good.
func (t *ticket) grants() string { return t.server.parts[len(t.server.parts)-1] }

// request is one exchange with a realm's KDC. The returned ticket may be for another service: the
// caller checks its name.
func (c *Config) request(ctx context.Context, conf *config.Config, tgt ticket, service name, realm string, renew bool) (ticket, error) {
	var encoded messages.Ticket
	if err := encoded.Unmarshal(tgt.encoded); err != nil {
		return ticket{}, err
	}
	session := types.EncryptionKey{KeyType: tgt.key.enctype, KeyValue: tgt.key.value}
	request, err := messages.NewTGSReq(kdcName(tgt.client), realm, conf, encoded, session, kdcName(service), renew)
	if err != nil {
		return ticket{}, err
	}
	var answer messages.TGSRep
	if err := c.call(ctx, realm, &request, &answer); err != nil {
		return ticket{}, kdcError(err, service)
	}
	if err := answer.DecryptEncPart(session); err != nil {
		return ticket{}, kdcError(err, service)
	}
	if ok, err := answer.Verify(conf, request); !ok {
		return ticket{}, kdcError(err, service)
	}
	return fromKDC(tgt.client, answer.Ticket, answer.DecryptedEncPart)
}

// fromKDC converts a KDC's reply. The names in the encrypted part are the trusted ones.
func fromKDC(client name, t messages.Ticket, part messages.EncKDCRepPart) (ticket, error) {
	encoded, err := t.Marshal()
	if err != nil {
		return ticket{}, err
	}
	if len(part.SName.NameString) == 0 {
		return ticket{}, fmt.Errorf("the KDC's reply names no service")
	}
	out := ticket{
		client:  client,
		server:  name{kind: part.SName.NameType, parts: part.SName.NameString, realm: part.SRealm},
		key:     rawKey{part.Key.KeyType, part.Key.KeyValue},
		start:   part.StartTime,
		end:     part.EndTime,
		renew:   part.RenewTill,
		encoded: encoded,
	}
	if out.start.IsZero() {
		out.start = part.AuthTime
	}
	return out, nil
}

// kdcError adds the cures to frequent errors from KDCs, in requests for of.
func kdcError(err error, of name) error {
	var refusal messages.KRBError
	var known *gss.Error
	switch {
	case errors.As(err, &known):
		return krbError(known.Major, Code(known), "request for %s: %s", of, strings.TrimPrefix(known.Text, "krb5: "))
	case !errors.As(err, &refusal):
		return fmt.Errorf("krb5: request for %s: %w", of, err)
	}
	for _, known := range []struct {
		code  int32
		major uint32
		cure  string
	}{
		{CodeClientUnknown, majorNoCred, "the KDC does not know the client %s"},
		{CodeServiceUnknown, gss.Failure, "the KDC does not know the service %s: create the principal, and mount by the name in it"},
		{CodeNoEnctype, gss.Failure, "the KDC has no key of a supported enctype for %s: give it an AES key"},
		{CodePreauthFailed, majorNoCred, "the KDC refuses the keytab's key of %s: extract it again"},
		{apTicketExpired, gss.CredentialsExpired, "the ticket for %s expired: run kinit"},
		{CodeSkew, gss.Failure, "the clock differs too much from the KDC's (request for %s): set both clocks by NTP"},
	} {
		if refusal.ErrorCode == known.code {
			return krbError(known.major, known.code, known.cure, of)
		}
	}
	return fmt.Errorf("krb5: request for %s: %w", of, err)
}
