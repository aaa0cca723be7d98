// Exchanges with KDCs, by gokrb5.

package krb5

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// maxReferrals limits the realms on the way to a service.
const maxReferrals = 8

// exchange runs f on another goroutine, because gokrb5 cannot be interrupted. Its own timeouts end
// the goroutine. A panic becomes an error.
func exchange(ctx context.Context, f func() (ticket, error)) (ticket, error) {
	type result struct {
		t   ticket
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("the KDC's message is malformed: %v", p)
			}
			done <- r
		}()
		r.t, r.err = f()
	}()
	select {
	case r := <-done:
		return r.t, r.err
	case <-ctx.Done():
		return ticket{}, ctx.Err()
	}
}

// kdcName is a name as gokrb5 has it.
func kdcName(n name) types.PrincipalName {
	return types.PrincipalName{NameType: n.kind, NameString: n.parts}
}

// ticketGranting names the service that gives out a realm's tickets, with keys in another or the
// same realm.
func ticketGranting(realm, at string) name {
	return name{kind: nameService, parts: []string{"krbtgt", realm}, realm: at}
}

// login gets a ticket-granting ticket with the keys of a keytab (RFC 4120 §3.1).
func (c *Config) login(ctx context.Context, who name, entries []KeytabEntry, file []byte) (ticket, error) {
	var have []int32
	for _, e := range entries {
		have = append(have, e.Enctype)
	}
	return exchange(ctx, func() (ticket, error) {
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
		cl := client.NewWithKeytab("", who.realm, kt, &conf)
		cl.Credentials = credentials.NewFromPrincipalName(kdcName(who), who.realm).WithKeytab(kt)
		defer cl.Destroy()
		request, err := messages.NewASReqForTGT(who.realm, &conf, kdcName(who))
		if err != nil {
			return ticket{}, err
		}
		reply, err := cl.ASExchange(who.realm, request, 0)
		if err != nil {
			return ticket{}, kdcError(err, who)
		}
		return fromKDC(who, reply.Ticket, reply.DecryptedEncPart)
	})
}

// serviceTicket gets a ticket for a service (RFC 4120 §3.3), through other realms if needed.
// Without a realm the service may be anywhere: the client's KDC refers to its realm.
func (c *Config) serviceTicket(ctx context.Context, tgt ticket, service name, renew bool) (ticket, error) {
	return exchange(ctx, func() (ticket, error) {
		conf := *c.kdc
		if service.realm == "" {
			service.realm = tgt.client.realm
			conf.LibDefaults.Canonicalize = true
		}
		for range maxReferrals {
			granted := tgt.server.parts[len(tgt.server.parts)-1] // the realm where the ticket is good
			if renew || granted == service.realm {
				return request(&conf, tgt, service, granted, renew)
			}
			next, err := request(&conf, tgt, ticketGranting(service.realm, granted), granted, false)
			if err != nil {
				return ticket{}, err
			}
			if next.server.same(tgt.server) {
				break
			}
			tgt = next
		}
		return ticket{}, fmt.Errorf("there is no path from realm %s to %s", tgt.client.realm, service.realm)
	})
}

// request is one exchange with the KDC of a realm.
func request(conf *config.Config, tgt ticket, service name, realm string, renew bool) (ticket, error) {
	cl := client.NewWithPassword("", tgt.client.realm, "", conf)
	cl.Credentials = credentials.NewFromPrincipalName(kdcName(tgt.client), tgt.client.realm)
	defer cl.Destroy()
	var encoded messages.Ticket
	if err := encoded.Unmarshal(tgt.encoded); err != nil {
		return ticket{}, err
	}
	session := types.EncryptionKey{KeyType: tgt.key.enctype, KeyValue: tgt.key.value}
	_, reply, err := cl.TGSREQGenerateAndExchange(kdcName(service), realm, encoded, session, renew)
	if err != nil {
		return ticket{}, kdcError(err, service)
	}
	t, err := fromKDC(tgt.client, reply.Ticket, reply.DecryptedEncPart)
	// A referral names another realm's KDC. All else must be the requested service, which gokrb5
	// does not check.
	if err == nil && t.server.parts[0] != "krbtgt" && !slices.Equal(t.server.parts, service.parts) {
		return ticket{}, fmt.Errorf("the KDC has sent a ticket for %s instead of %s", t.server, service)
	}
	return t, err
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

// kdcError adds the cure to a KDC's frequent errors. gokrb5 keeps the code only in the text.
func kdcError(err error, of name) error {
	for _, known := range []struct {
		code  int32
		major uint32
		cure  string
	}{
		{6, majorNoCred, "the KDC does not know the client %s"},
		{7, gss.Failure, "the KDC does not know the service %s: create the principal, and mount by the name in it"},
		{14, gss.Failure, "the KDC has no key of a supported enctype for %s: give it an AES key"},
		{24, majorNoCred, "the KDC refuses the keytab's key of %s: extract it again"},
		{32, gss.CredentialsExpired, "the ticket for %s expired: run kinit"},
		{37, gss.Failure, "the clock differs too much from the KDC's (request for %s): set both clocks by NTP"},
	} {
		if strings.Contains(err.Error(), fmt.Sprintf("KRB Error: (%d) ", known.code)) {
			return krbError(known.major, known.code, known.cure, of)
		}
	}
	return fmt.Errorf("krb5: request for %s: %w", of, err)
}
