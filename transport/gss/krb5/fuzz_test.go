// Decoders take any bytes: they end, do not panic, and do not allocate more than their input.

package krb5

import (
	"bytes"
	"testing"
	"time"
)

// FuzzAccept gives any token to an acceptor.
func FuzzAccept(f *testing.F) {
	a, _ := testAcceptor(f, "")
	for _, et := range enctypes {
		f.Add(newForgery(f, et.id).token())
	}
	f.Add(frame(idError, errorMessage{at: time.Now(), code: 1, service: parseName("a@R", "")}.marshal()))
	f.Fuzz(func(t *testing.T, token []byte) {
		before := bytes.Clone(token)
		got, reply, err := a.Accept(token)
		if (got == nil) == (err == nil) || err == nil && reply == nil {
			t.Errorf("context %v, reply %x, %v", got, reply, err)
		}
		if !bytes.Equal(before, token) && err != nil {
			if _, code := codes(err); code == -1 {
				t.Error("a malformed token was changed")
			}
		}
	})
}

// FuzzInside gives any bytes to the decoders of decrypted parts and of replies.
func FuzzInside(f *testing.F) {
	forged := newForgery(f, AES128SHA1)
	f.Add(forged.ticketPart())
	f.Add(forged.auth.marshal(forged.subkey))
	f.Add(forged.request())
	f.Add(apRep{at: time.Now(), seq: 1}.marshal(forged.subkey))
	f.Add(marshalAPRep(encrypted{enctype: AES128SHA1, kvno: 3, cipher: make([]byte, 40)}))
	f.Add(errorMessage{at: time.Now(), code: 37, service: forged.service, text: "skew"}.marshal())
	f.Add(newChecksum(contextFlags | contextDelegate))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parseTicketPart(b); err == nil && len(p.client.parts) == 0 {
			t.Error("a ticket without a client")
		}
		if p, err := parseAuthenticator(b); err == nil && len(p.client.parts) == 0 {
			t.Error("an authenticator without a client")
		}
		if p, _, err := parseAPReq(b); err == nil && len(p.service.parts) > maxComponents {
			t.Error("an AP-REQ with a long name")
		}
		_, _ = parseAPRepPart(b)
		_, _ = parseAPRep(b)
		_, _ = parseError(b)
		_, _ = parseChecksum(b)
		_, _ = forged.initiator().Finish(b)
		_, _ = forged.initiator().Finish(frame(idAPRep, b))
		_, _ = forged.initiator().Finish(frame(idError, b))
	})
}

// FuzzTokens gives any bytes to a context, which accepts none as the peer's token.
func FuzzTokens(f *testing.F) {
	i, a := contexts(f, AES256SHA1)
	_, other := contexts(f, AES256SHA1)
	f.Add(i.MIC(nil))
	f.Add(i.Wrap(nil, []byte("plain")))
	f.Add(i.WrapClear(nil, []byte("plain")))
	f.Add(a.Wrap(nil, make([]byte, 100)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if other.VerifyMIC(b) == nil {
			t.Errorf("MIC %x", b)
		}
		if p, err := other.Unwrap(bytes.Clone(b)); err == nil {
			t.Errorf("Wrap %x: %x", b, p)
		}
		if p, _, err := other.UnwrapAny(b); err == nil {
			t.Errorf("Wrap %x: %x", b, p)
		}
	})
}

// FuzzFiles gives any bytes to the decoders of keytabs, credential caches and krb5.conf.
func FuzzFiles(f *testing.F) {
	f.Add(keytabFile(f, 3, "nfs/server@R", "a@S"))
	f.Add(cacheBytes(4, time.Now()))
	f.Add(cacheBytes(3, time.Now()))
	f.Add([]byte("[libdefaults]\na = b\n[realms]\nR = {\nkdc = x\n}\ninclude /nonexistent\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if entries, err := parseKeytab(b); err == nil && len(entries) > len(b)/4 {
			t.Errorf("%d entries in %d bytes", len(entries), len(b))
		}
		if c, err := parseCache(b); err == nil && len(c.tickets) > len(b)/40 {
			t.Errorf("%d tickets in %d bytes", len(c.tickets), len(b))
		}
		if !bytes.Contains(b, []byte("include")) { // an include reads files
			_ = profile{}.parse("fuzz", string(b), 0)
		}
	})
}
