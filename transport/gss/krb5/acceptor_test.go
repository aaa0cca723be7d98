// Each reason to refuse an AP-REQ, and the acceptor's memory.

package krb5

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// codes returns an error's major status, and its Kerberos code or -1.
func codes(err error) (major uint32, code int32) {
	e := (*gss.Error)(nil)
	if !errors.As(err, &e) {
		return 0, -1
	}
	if e.Minor < minorBase {
		return e.Major, -1
	}
	return e.Major, int32(e.Minor - minorBase)
}

func TestAccept(t *testing.T) {
	conformance.Proves(t, "R4121-005", "R4121-006")
	for _, et := range enctypes {
		a, _ := testAcceptor(t, "")
		f := newForgery(t, et.id)
		got, reply, err := a.Accept(f.token())
		must.Succeed(t, err)
		if p := got.Principal(); p != "alice@R" {
			t.Errorf("%s: principal %s", et.name, p)
		}
		if e := got.Expires(); !e.Equal(f.end.Add(DefaultClockSkew)) {
			t.Errorf("%s: expires %v, want %v after %v", et.name, e, DefaultClockSkew, f.end)
		}
		if !bytes.HasPrefix(reply, []byte{0x60}) || !bytes.Contains(reply[:20], []byte(OID+"\x02\x00")) {
			t.Errorf("%s: the reply is not framed: %x", et.name, reply[:20])
		}
		other, err := f.initiator().Finish(reply)
		must.Succeed(t, err)
		if p := other.Principal(); p != "nfs/server@R" {
			t.Errorf("%s: the initiator's peer is %s", et.name, p)
		}
	}
}

// TestAcceptRefuses makes requests with one fault each, and each is refused for its fault.
func TestAcceptRefuses(t *testing.T) {
	const past = DefaultClockSkew + time.Minute
	other, _ := newSubkey(enctypeOf(AES256SHA1))
	for fault, v := range map[string]struct {
		break_ func(f *forgery)
		major  uint32
		code   int32
		reason gss.Reason
	}{
		"unknown version of the key":  {func(f *forgery) { f.kvno = 4 }, majorNoCred, CodeKeyVersion, gss.ReasonKey},
		"another key":                 {func(f *forgery) { f.serviceKey = other.value }, gss.Failure, CodeIntegrity, gss.ReasonKey},
		"user to user":                {func(f *forgery) { f.options |= optionUseSessionKey }, gss.Failure, apNoTGT, gss.ReasonUnsupported},
		"no mutual option":            {func(f *forgery) { f.options = 0 }, gss.Failure, apGeneric, gss.ReasonUnsupported},
		"no mutual flag":              {func(f *forgery) { f.auth.checksum = newChecksum(contextConf) }, gss.Failure, apGeneric, gss.ReasonUnsupported},
		"DCE style":                   {func(f *forgery) { f.auth.checksum = newChecksum(contextFlags | contextDCE) }, gss.Failure, apGeneric, gss.ReasonUnsupported},
		"other checksum":              {func(f *forgery) { f.auth.checksumType = 16 }, gss.Failure, apInappChecksum, gss.ReasonAuthenticator},
		"short checksum":              {func(f *forgery) { f.auth.checksum = f.auth.checksum[:23] }, gss.DefectiveToken, apInappChecksum, gss.ReasonAuthenticator},
		"bindings of another size":    {func(f *forgery) { f.auth.checksum[0] = 20 }, gss.DefectiveToken, apInappChecksum, gss.ReasonAuthenticator},
		"no delegated ticket":         {func(f *forgery) { f.auth.checksum = newChecksum(contextFlags | contextDelegate) }, gss.DefectiveToken, apInappChecksum, gss.ReasonAuthenticator},
		"ticket expired":              {func(f *forgery) { f.end = time.Now().Add(-past) }, gss.CredentialsExpired, apTicketExpired, gss.ReasonTicketTime},
		"ticket not yet valid":        {func(f *forgery) { f.start = time.Now().Add(past) }, gss.Failure, apTicketNotYetValid, gss.ReasonTicketTime},
		"invalid ticket":              {func(f *forgery) { f.flags = ticketInvalid }, gss.Failure, apTicketNotYetValid, gss.ReasonTicketTime},
		"unchecked realms on the way": {func(f *forgery) { f.otherRealm("X", "Y") }, gss.Failure, apIllegalTransit, gss.ReasonRealm},
		"unchecked realms, renamed":   {func(f *forgery) { f.otherRealm("X", "Y"); f.service.realm = "X" }, gss.Failure, apIllegalTransit, gss.ReasonRealm},
		"clock behind":                {func(f *forgery) { f.auth.at = time.Now().Add(-past) }, gss.Failure, CodeSkew, gss.ReasonClock},
		"clock ahead":                 {func(f *forgery) { f.auth.at = time.Now().Add(past) }, gss.Failure, CodeSkew, gss.ReasonClock},
		"another client":              {func(f *forgery) { f.auth.client.parts = []string{"root"} }, gss.Failure, apBadMatch, gss.ReasonAuthenticator},
		"client of another realm":     {func(f *forgery) { f.auth.client.realm = "S" }, gss.Failure, apBadMatch, gss.ReasonAuthenticator},
		"client with more components": {func(f *forgery) { f.auth.client.parts = []string{"alice", "admin"} }, gss.Failure, apBadMatch, gss.ReasonAuthenticator},
		"authenticator of another":    {func(f *forgery) { f.sealWith = other }, gss.Failure, CodeIntegrity, gss.ReasonAuthenticator},
	} {
		t.Run(fault, func(t *testing.T) {
			a, _ := testAcceptor(t, "")
			f := newForgery(t, AES256SHA1)
			v.break_(f)
			got, reply, err := a.Accept(f.token())
			major, code := codes(err)
			if got != nil || major != v.major || code != v.code {
				t.Fatalf("context %v, major %#x, code %d (%v), want %#x, %d", got, major, code, err, v.major, v.code)
			}
			if e := (*gss.Error)(nil); !errors.As(err, &e) || e.Reason != v.reason {
				t.Errorf("%v with the reason %v, want %v", err, e.Reason, v.reason)
			}
			id, message, _, _ := unframe(reply)
			e, err := parseError(message)
			if err != nil || id != idError || e.code != v.code || !e.service.same(f.service) {
				t.Errorf("the reply %x is %+v, %v, want a KRB-ERROR %d", reply, e, err, v.code)
			}
			if _, err := f.initiator().Finish(reply); err == nil {
				t.Error("the initiator takes a KRB-ERROR for an AP-REP")
			} else if _, code := codes(err); code != v.code {
				t.Errorf("the initiator says %v", err)
			}
		})
	}
}

// TestKeytabCures: the error for a ticket that no key opens says which key is missing, and the cure
// of that fault alone.
func TestKeytabCures(t *testing.T) {
	other, _ := newSubkey(enctypeOf(AES256SHA1))
	for fault, v := range map[string]struct {
		principal string // of the acceptor
		break_    func(f *forgery)
		code      int32
		want, not string
	}{
		"principal absent":     {"", func(f *forgery) { f.service.parts = []string{"nfs", "else"}; f.serviceKey = other.value }, CodeNoKey, "has no key of nfs/else@R: add it by kadmin (ktadd -k ", "kinit"},
		"principal not wanted": {"host/server", func(f *forgery) { f.serviceKey = other.value }, CodeNoKey, "for nfs/server@R, and this server takes those for host/server alone", "ktadd"},
		"later version":        {"", func(f *forgery) { f.kvno = 4 }, CodeKeyVersion, "of version 4, and the keytab ", "kinit"},
		"earlier version":      {"", func(f *forgery) { f.kvno = 2 }, CodeKeyVersion, "has the later one 3: get a new ticket by kinit", "ktadd"},
		"another key":          {"", func(f *forgery) { f.serviceKey = other.value }, CodeIntegrity, "has another key of nfs/server@R, version 3, than the KDC: extract it again by kadmin (ktadd -k ", "kinit"},
		"enctype absent":       {"", nil, CodeNoKey, "has no key of nfs/server@R for aes256-cts-hmac-sha1-96: extract one", "kinit"},
	} {
		a, _ := testAcceptor(t, v.principal)
		if v.break_ == nil {
			v.break_ = func(*forgery) {}
			a.keys.readAt = time.Now().Add(time.Hour) // no reread: the file still has the key
			a.keys.entries = slices.DeleteFunc(a.keys.entries, func(e KeytabEntry) bool { return e.Enctype == AES256SHA1 })
		}
		f := newForgery(t, AES256SHA1)
		v.break_(f)
		_, _, err := a.Accept(f.token())
		if got := Code(err); got != v.code {
			t.Errorf("%s: got code %d (%v), want %d", fault, got, err, v.code)
		}
		if text := err.Error(); !strings.Contains(text, v.want) || strings.Contains(text, v.not) {
			t.Errorf("%s: got %q, want %q in it, and not %q", fault, text, v.want, v.not)
		}
	}
}

// TestCode: Code returns 0 for minor status codes that are not Kerberos's.
func TestCode(t *testing.T) {
	for err, want := range map[error]int32{
		nil: 0, errors.New("x"): 0, errBadMIC: 0, krbError(gss.Failure, CodeSkew, "x"): CodeSkew,
		&gss.Error{Minor: minorBase + minorCodes}: 0, &gss.Error{Minor: minorBase + minorCodes - 1}: minorCodes - 1, &gss.Error{Minor: minorBase - 1}: 0,
	} {
		if got := Code(err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}

// otherRealm moves the client to another realm; way lists the realms between that realm and the
// server's.
func (f *forgery) otherRealm(realm, way string) {
	f.client.realm, f.auth.client.realm, f.transited = realm, realm, []byte(way)
}

// TestAcceptOtherRealm: realms on the way need the KDC's check. Without such realms no check is
// needed.
func TestAcceptOtherRealm(t *testing.T) {
	a, _ := testAcceptor(t, "")
	checked, direct := newForgery(t, AES256SHA1), newForgery(t, AES256SHA1)
	checked.otherRealm("X", "Y")
	checked.flags = ticketTransitChecked
	direct.otherRealm("X", "")
	for _, f := range []*forgery{checked, direct} {
		got, _, err := a.Accept(f.token())
		if err != nil || got.Principal() != "alice@X" {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestAcceptClockSkew: times within the permitted clock skew are accepted.
func TestAcceptClockSkew(t *testing.T) {
	a, _ := testAcceptor(t, "")
	const most = DefaultClockSkew - 10*time.Second
	for _, d := range []time.Duration{-most, most} {
		f := newForgery(t, AES128SHA2)
		near := time.Now().UTC().Truncate(time.Microsecond).Add(d)
		f.auth.at, f.end = near, near.Truncate(time.Second)
		if d > 0 {
			f.start, f.end = f.end, f.end.Add(time.Hour)
		}
		if _, _, err := a.Accept(f.token()); err != nil {
			t.Errorf("clock differs by %v: %v", d, err)
		}
	}
}

// TestAcceptMalformed: tokens that are no readable AP-REQ get a status, and no KRB-ERROR.
func TestAcceptMalformed(t *testing.T) {
	conformance.Proves(t, "R4121-007")
	a, _ := testAcceptor(t, "")
	for fault, v := range map[string]struct {
		break_ func(f *forgery)
		major  uint32
	}{
		"another mechanism": {func(f *forgery) { f.oid = "\x06\x06\x2b\x06\x01\x05\x05\x02" }, majorBadMech},
		"an AP-REP":         {func(f *forgery) { f.id = idAPRep }, gss.DefectiveToken},
		"version 4":         {func(f *forgery) { f.pvno = 4 }, gss.DefectiveToken},
		"another message":   {func(f *forgery) { f.kind = tagAPRep }, gss.DefectiveToken},
		"nameless service":  {func(f *forgery) { f.service.parts = nil }, gss.DefectiveToken},
		"too long":          {func(f *forgery) { f.transited = make([]byte, maxToken) }, gss.DefectiveToken},
		"a name too long":   {func(f *forgery) { f.service.parts = make([]string, maxComponents+1) }, gss.DefectiveToken},
	} {
		f := newForgery(t, AES256SHA1)
		v.break_(f)
		got, reply, err := a.Accept(f.token())
		if major, _ := codes(err); got != nil || reply != nil || major != v.major {
			t.Errorf("%s: context %v, reply %x, error %v, want major %#x", fault, got, reply, err, v.major)
		}
	}
}

// TestAcceptPieces: neither truncated nor changed tokens are accepted.
func TestAcceptPieces(t *testing.T) {
	a, _ := testAcceptor(t, "")
	token := newForgery(t, AES128SHA1).token()
	for n := range token {
		if _, _, err := a.Accept(token[:n]); err == nil {
			t.Fatalf("%d of %d bytes are accepted", n, len(token))
		}
	}
	if _, _, err := a.Accept(append(bytes.Clone(token), 0)); err == nil {
		t.Error("a byte after the token is accepted")
	}
}

// TestReplay: an acceptor accepts an AP-REQ once. The second gets KRB_AP_ERR_REPEAT and a reply.
func TestReplay(t *testing.T) {
	a, _ := testAcceptor(t, "")
	token := newForgery(t, AES256SHA2).token()
	if _, _, err := a.Accept(bytes.Clone(token)); err != nil {
		t.Fatalf("first: %v", err)
	}
	got, reply, err := a.Accept(token)
	if _, code := codes(err); got != nil || code != apRepeat || reply == nil {
		t.Errorf("again: %v, %v, want code %d", got, err, apRepeat)
	}
}

// TestReplayCache: entries end, memory is bounded, and within the bound nothing is forgotten.
func TestReplayCache(t *testing.T) {
	var c replayCache
	id := func(i int) (r replayID) {
		r[0], r[1], r[2], r[3] = byte(i), byte(i>>8), byte(i>>16), 1
		return r
	}
	now := time.Now()
	for i := range maxReplays + 100 {
		if !c.add(id(i), now, now.Add(time.Minute)) {
			t.Fatalf("%d is not new", i)
		}
	}
	if len(c.known) != maxReplays || len(c.order) > 2*maxReplays {
		t.Errorf("%d entries in a ring of %d, want at most %d", len(c.known), len(c.order), maxReplays)
	}
	for _, i := range []int{100, 5000, maxReplays + 99} {
		if c.add(id(i), now, now.Add(time.Minute)) {
			t.Errorf("%d was forgotten", i)
		}
	}
	later := now.Add(2 * time.Minute)
	if !c.add(id(1<<20), later, later.Add(time.Minute)) || len(c.known) != 1 {
		t.Errorf("%d entries after the end of all but one", len(c.known))
	}
}

// TestKeytabChanges: a replaced keytab is read with the next request, and a damaged one leaves the
// old keys in use.
func TestKeytabChanges(t *testing.T) {
	a, keytab := testAcceptor(t, "")
	accept := func(version uint32) error {
		f := newForgery(t, AES256SHA1)
		f.kvno = version
		_, _, err := a.Accept(f.token())
		return err
	}
	if err := accept(4); err == nil {
		t.Fatal("version 4 is accepted before it is in the keytab")
	}
	next := keytab + ".new"
	must.Succeed(t, os.WriteFile(next, append(keytabFile(t, 3, "nfs/server@R"), keytabFile(t, 4, "nfs/server@R")[2:]...), 0o600), os.Rename(next, keytab))
	for _, version := range []uint32{3, 4, 0} {
		if err := accept(version); err != nil {
			t.Errorf("version %d after the change: %v", version, err)
		}
	}
	must.Succeed(t, os.WriteFile(keytab, []byte{5, 2, 0, 0, 1, 0}, 0o600))
	if err := accept(4); err != nil {
		t.Errorf("version 4 with a damaged keytab: %v", err)
	}
	must.Succeed(t, os.Remove(keytab))
	if err := accept(3); err != nil {
		t.Errorf("version 3 without a keytab: %v", err)
	}
}

// TestRereadIsRare: not every unknown key makes the acceptor read the keytab.
func TestRereadIsRare(t *testing.T) {
	a, _ := testAcceptor(t, "")
	a.keys.readAt = time.Now().Add(-2 * rereadInterval)
	if _, again := a.keys.reread(); !again {
		t.Error("not read after the interval")
	}
	if _, again := a.keys.reread(); again {
		t.Error("read twice in the interval")
	}
}

// TestPrincipal: only the configured principal's keys are used.
func TestPrincipal(t *testing.T) {
	for _, principal := range []string{"nfs/server@R", "nfs/server", ""} {
		a, _ := testAcceptor(t, principal)
		f, host := newForgery(t, AES256SHA1), newForgery(t, AES256SHA1)
		host.service = parseName("host/alias@R", "")
		if _, _, err := a.Accept(f.token()); err != nil {
			t.Errorf("%q: %v", principal, err)
		}
		// The ticket's readable name excludes no key: an alias's ticket opens with the same key.
		if _, _, err := a.Accept(host.token()); err != nil {
			t.Errorf("%q, under an alias: %v", principal, err)
		}
	}
	keytab := t.TempDir() + "/keytab"
	must.Succeed(t, os.WriteFile(keytab, keytabFile(t, 1, "nfs/server@R"), 0o600))
	for _, principal := range []string{"nfs/other", "nfs/server@S", "nfs"} {
		if _, err := NewAcceptor(AcceptorOptions{Keytab: keytab, Principal: principal}); err == nil || !strings.Contains(err.Error(), principal) {
			t.Errorf("%q: %v", principal, err)
		}
	}
	if _, err := NewAcceptor(AcceptorOptions{Keytab: keytab + ".missing"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing keytab: %v", err)
	}
}

// TestNames: different names are different text, and no component can look like a realm.
func TestNames(t *testing.T) {
	for want, n := range map[string]name{
		"alice@R":          {parts: []string{"alice"}, realm: "R"},
		"nfs/host@R":       {parts: []string{"nfs", "host"}, realm: "R"},
		`alice\@R@S`:       {parts: []string{"alice@R"}, realm: "S"},
		`nfs\/host@R`:      {parts: []string{"nfs/host"}, realm: "R"},
		`a\\\n\t\b\0@R\@S`: {parts: []string{"a\\\n\t\b\x00"}, realm: "R@S"},
	} {
		if got := n.String(); got != want {
			t.Errorf("%q: got %s, want %s", n.parts, got, want)
		}
	}
}
