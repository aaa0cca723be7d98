// The initiator's request byte by byte, and each reason to refuse a reply.

package krb5

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// TestRequest decodes an initiator's AP-REQ.
func TestRequest(t *testing.T) {
	conformance.Proves(t, "R5403-009", "R4121-005", "R4121-006", "R4121-011", "R4121-012", "R4121-014", "R4121-019", "R4121-020")
	f := newForgery(t, AES128SHA1)
	i := f.initiator()
	i.ticket.encoded = f.ticket()
	token := frame(idAPReq, i.request())
	if want := []byte("\x60\x82"); !bytes.HasPrefix(token, want) || string(token[4:4+len(OID)+2]) != OID+"\x01\x00" {
		t.Errorf("the token begins %x", token[:20])
	}
	_, message, _, _ := unframe(token)
	q, _, err := parseAPReq(message)
	must.Succeed(t, err)
	if q.options != optionMutual || !q.service.same(f.service) {
		t.Errorf("options %#x for %s, want mutual authentication with %s", q.options, q.service, f.service)
	}
	auth, err := openAuthenticator(f.session, q.authenticator.cipher)
	must.Succeed(t, err)
	if auth.seq != f.auth.seq || !auth.at.Equal(f.auth.at) || !auth.client.same(f.client) || !bytes.Equal(auth.subkey.value, f.subkey.value) {
		t.Errorf("authenticator %+v, want that of %+v", auth, f.auth)
	}
	const want = "10000000" + "00000000000000000000000000000000" + "32000000"
	if got := hex.EncodeToString(auth.checksum); auth.checksumType != 0x8003 || got != want {
		t.Errorf("checksum %#x %s, want 0x8003 %s", auth.checksumType, got, want)
	}
}

// reply seals the encrypted part of an AP-REP.
func reply(f *forgery, part []byte) []byte {
	cipher := newSealKey(f.session, usageAPRep).seal(nil, nil, part)
	return frame(idAPRep, marshalAPRep(encrypted{enctype: f.session.et.id, cipher: cipher}))
}

// TestFinishRefuses makes replies with one fault each, and each is refused for its fault.
func TestFinishRefuses(t *testing.T) {
	conformance.Proves(t, "R4121-008", "R4121-010")
	f := newForgery(t, AES256SHA2)
	other := newForgery(t, AES256SHA2)
	subkey, _ := newSubkey(f.session.et)
	part := func(by time.Duration) []byte { return apRep{at: f.auth.at.Add(by), seq: 1}.marshal(subkey) }
	good := reply(f, part(0))
	got, err := f.initiator().Finish(good)
	if err != nil {
		t.Fatalf("a good reply: %v", err)
	}
	if !got.Expires().Equal(f.end) || got.Principal() != f.service.String() {
		t.Errorf("context with %s until %v, want %s until %v, the ticket's end", got.Principal(), got.Expires(), f.service, f.end)
	}
	mixed := *f
	mixed.session, _ = newSubkey(enctypeOf(AES128SHA1))
	mislabeled := newSealKey(f.session, usageAPRep).seal(nil, nil, part(0))
	for fault, token := range map[string][]byte{
		"an enctype beside the key's":      frame(idAPRep, marshalAPRep(encrypted{enctype: AES256SHA1, cipher: mislabeled})),
		"the time of another request":      reply(f, part(time.Microsecond)),
		"the second of another request":    reply(f, part(-time.Second)),
		"another session key":              reply(other, part(0)),
		"another enctype":                  reply(&mixed, part(0)),
		"an unsupported subkey":            reply(f, apRep{at: f.auth.at}.marshal(key{&enctype{id: 23}, subkey.value[:16]})),
		"a short subkey":                   reply(f, apRep{at: f.auth.at}.marshal(key{f.session.et, subkey.value[:16]})),
		"no frame":                         good[19:],
		"an AP-REQ":                        f.token(),
		"a MIC token":                      (&Context{}).micOf(f),
		"the parts of another message":     reply(f, f.auth.marshal(subkey)),
		"a malformed AP-REP":               frame(idAPRep, []byte{1, 2, 3}),
		"a malformed KRB-ERROR":            frame(idError, []byte{1, 2, 3}),
		"an AP-REP under another OID":      bytes.Replace(good, []byte(OID), []byte(strings.Replace(OID, "\x02\x02", "\x02\x03", 1)), 1),
		"an AP-REP as KRB-ERROR":           bytes.Replace(good, []byte(OID+"\x02"), []byte(OID+"\x03"), 1),
		"an AP-REP as another message":     bytes.Replace(good, []byte(OID+"\x02"), []byte(OID+"\x05"), 1),
		"a truncated AP-REP":               good[:len(good)-1],
		"an AP-REP with a byte after it":   append(bytes.Clone(good), 0),
		"an AP-REP with a changed message": flipped(good),
	} {
		got, err := f.initiator().Finish(token)
		if e := (*gss.Error)(nil); got != nil || !errors.As(err, &e) {
			t.Errorf("%s: context %v, error %v of %T", fault, got, err, err)
		}
	}
}

func flipped(token []byte) []byte {
	b := bytes.Clone(token)
	b[len(b)-1] ^= 1
	return b
}

// micOf returns a MIC token by the forgery's subkey.
func (*Context) micOf(f *forgery) []byte { return newContext(setup{key: f.subkey}).MIC(nil) }

// TestNoAcceptorSubkey: without a subkey from the acceptor, the initiator's subkey protects tokens.
func TestNoAcceptorSubkey(t *testing.T) {
	conformance.Proves(t, "R4121-004", "R4121-030")
	f := newForgery(t, AES128SHA2)
	part := message(tagEncAPRep, func(w writer) {
		w.time(0, f.auth.at)
		w.integer(1, int64(f.auth.at.Nanosecond()/1000))
	})
	got, err := f.initiator().Finish(reply(f, part))
	must.Succeed(t, err)
	a := newContext(setup{key: f.subkey, acceptor: true})
	token := got.MIC(nil, []byte("x"))
	if err := a.VerifyMIC(token, []byte("x")); err != nil || token[2]&flagAcceptorSubkey != 0 {
		t.Errorf("MIC: %v, flags %#x, want no subkey of the acceptor", err, token[2])
	}
	if plain, err := got.Unwrap(a.Wrap(nil, []byte("x"))); err != nil || string(plain) != "x" {
		t.Errorf("Unwrap: %q, %v", plain, err)
	}
}

// TestForget: a refused ticket is not used again.
func TestForget(t *testing.T) {
	f := newForgery(t, AES128SHA2)
	i := f.initiator()
	token := frame(idError, errorMessage{at: time.Now(), code: CodeKeyVersion, service: f.service}.marshal())
	if _, err := i.Finish(token); err == nil {
		t.Fatal("a KRB-ERROR is a context")
	}
	if len(i.credentials.services) != 0 {
		t.Error("the refused ticket is kept")
	}
}

// TestChecksum: an acceptor accepts each valid checksum in an authenticator, and no other.
func TestChecksum(t *testing.T) {
	conformance.Proves(t, "R4121-013", "R4121-015", "R4121-016", "R4121-017", "R4121-018", "R4121-021")
	plain := newChecksum(contextFlags)
	bound := slices.Concat(plain[:4], bytes.Repeat([]byte{7}, 16), plain[20:])
	delegated := newChecksum(contextFlags | contextDelegate)
	for what, v := range map[string]struct {
		sum []byte
		ok  bool
	}{
		"plain":                        {plain, true},
		"channel bindings":             {bound, true},
		"an extension":                 {append(bytes.Clone(plain), 1, 2, 3), true},
		"a delegated ticket":           {slices.Concat(delegated, []byte{1, 0, 2, 0, 9, 9}), true},
		"a ticket and an extension":    {slices.Concat(delegated, []byte{1, 0, 2, 0, 9, 9, 1, 2, 3}), true},
		"27 bytes with delegation":     {slices.Concat(delegated, []byte{1, 0, 0}), false},
		"a short delegated ticket":     {slices.Concat(delegated, []byte{1, 0, 3, 0, 9, 9}), false},
		"another option of delegation": {slices.Concat(delegated, []byte{2, 0, 2, 0, 9, 9}), false},
		"delegation without a ticket":  {delegated, false},
		"23 bytes":                     {plain[:23], false},
		"nothing":                      {nil, false},
		"bindings of another size":     {slices.Concat([]byte{17}, plain[1:]), false},
	} {
		a, _ := testAcceptor(t, "")
		f := newForgery(t, AES256SHA1)
		f.auth.checksum = v.sum
		if _, _, err := a.Accept(f.token()); (err == nil) != v.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	a, _ := testAcceptor(t, "")
	f := newForgery(t, AES256SHA1)
	f.auth.checksumType = 7
	if _, _, err := a.Accept(f.token()); err == nil {
		t.Error("a checksum of type 7 is taken")
	}
}
