// A KDC in memory: keytabs, tickets and requests with any content.

package krb5

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/cryptobyte"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// keytabFile encodes a keytab with the test key of each enctype for each principal.
func keytabFile(t testing.TB, version uint32, principals ...string) []byte {
	t.Helper()
	b := []byte{5, 2}
	counted := func(e []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint16(e, uint16(len(s))), s...)
	}
	for _, p := range principals {
		n := parseName(p, "R")
		for _, et := range enctypes {
			e := binary.BigEndian.AppendUint16(nil, uint16(len(n.parts)))
			e = counted(e, n.realm)
			for _, part := range n.parts {
				e = counted(e, part)
			}
			e = binary.BigEndian.AppendUint32(e, uint32(n.kind))
			e = binary.BigEndian.AppendUint32(e, 1)
			e = append(e, byte(version))
			e = binary.BigEndian.AppendUint16(e, uint16(et.id))
			e = counted(e, string(must.Hex(t, testKeys[et.id])))
			e = binary.BigEndian.AppendUint32(e, version)
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(e))), e...)
		}
	}
	return b
}

// testAcceptor returns an acceptor with keys of nfs/server@R, version 3.
func testAcceptor(t testing.TB, principal string) (a *Acceptor, keytab string) {
	t.Helper()
	keytab = filepath.Join(t.TempDir(), "keytab")
	must.Succeed(t, os.WriteFile(keytab, keytabFile(t, 3, "nfs/server@R", "host/server@R"), 0o600))
	a, err := NewAcceptor(AcceptorOptions{Keytab: keytab, Principal: principal})
	must.Succeed(t, err)
	return a, keytab
}

// A forgery is an AP-REQ. newForgery makes a valid one; tests change its fields.
type forgery struct {
	pvno, kind int64
	options    uint32
	service    name
	kvno       uint32
	enctype    int32
	serviceKey []byte
	flags      uint32
	client     name
	transited  []byte
	start, end time.Time
	session    key
	sealWith   key // encrypts the authenticator; usually session
	auth       authenticator
	subkey     key
	id         uint16
	oid        string
}

func newForgery(t testing.TB, id int32) *forgery {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	et := enctypeOf(id)
	session, _ := newSubkey(et)
	subkey, seq := newSubkey(et)
	client := parseName("alice@R", "")
	return &forgery{
		pvno: version, kind: tagAPReq, options: optionMutual, service: parseName("nfs/server@R", ""), kvno: 3, enctype: id,
		serviceKey: must.Hex(t, testKeys[id]), client: client,
		start: now.Add(-time.Hour).Truncate(time.Second), end: now.Add(time.Hour).Truncate(time.Second),
		session: session, sealWith: session, subkey: subkey,
		auth: authenticator{client: client, checksumType: checksumGSS, checksum: newChecksum(contextFlags), at: now, seq: seq},
		id:   idAPReq, oid: OID,
	}
}

// ticketPart encodes the encrypted part of the ticket.
func (f *forgery) ticketPart() []byte {
	return message(tagEncTicket, func(w writer) {
		w.flags(0, f.flags)
		w.key(1, f.session)
		w.text(2, f.client.realm)
		w.name(3, f.client)
		w.sequence(4, func(w writer) {
			w.integer(0, 1)
			w.bytes(1, f.transited)
		})
		w.time(5, f.start)
		w.time(6, f.start)
		w.time(7, f.end)
	})
}

func (f *forgery) ticket() []byte {
	cipher := newSealKey(key{enctypeOf(f.enctype), f.serviceKey}, usageTicket).seal(nil, nil, f.ticketPart())
	return message(tagTicket, func(w writer) {
		w.integer(0, version)
		w.text(1, f.service.realm)
		w.name(2, f.service)
		w.encrypted(3, encrypted{f.enctype, f.kvno, cipher})
	})
}

// request encodes the AP-REQ.
func (f *forgery) request() []byte {
	cipher := newSealKey(f.sealWith, usageAuthenticator).seal(nil, nil, f.auth.marshal(f.subkey))
	return message(tagAPReq, func(w writer) {
		w.integer(0, f.pvno)
		w.integer(1, f.kind)
		w.flags(2, f.options)
		w.field(3, func(b *cryptobyte.Builder) { b.AddBytes(f.ticket()) })
		w.encrypted(4, encrypted{enctype: f.sealWith.et.id, cipher: cipher})
	})
}

// token encodes the framed AP-REQ.
func (f *forgery) token() []byte {
	var b cryptobyte.Builder
	b.AddASN1(frameTag, func(b *cryptobyte.Builder) {
		b.AddBytes([]byte(f.oid))
		b.AddUint16(f.id)
		b.AddBytes(f.request())
	})
	return b.BytesOrPanic()
}

// initiator returns an initiator as if it had sent the forgery.
func (f *forgery) initiator() *Initiator {
	c := &Credentials{services: map[string]ticket{f.service.String(): {}}}
	return &Initiator{
		credentials: c, service: f.service, session: f.session, subkey: f.subkey, seq: f.auth.seq, at: f.auth.at,
		ticket: ticket{client: f.client, server: f.service, end: f.end}, now: time.Now,
	}
}

// contexts creates both ends of a context.
func contexts(t testing.TB, id int32) (initiator, acceptor *Context) {
	t.Helper()
	a, _ := testAcceptor(t, "")
	f := newForgery(t, id)
	got, reply, err := a.Accept(f.token())
	must.Succeed(t, err)
	other, err := f.initiator().Finish(reply)
	must.Succeed(t, err)
	return other.(*Context), got.(*Context)
}
