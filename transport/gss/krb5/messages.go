// The messages of the application exchange (RFC 4120 §5.5 and §5.9.1) and tickets (§5.3).

package krb5

import (
	"time"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Application tags; for AP-REQ, AP-REP and KRB-ERROR also the message type.
const (
	tagTicket        = 1
	tagAuthenticator = 2
	tagEncTicket     = 3
	tagAPReq         = 14
	tagAPRep         = 15
	tagEncAPRep      = 27
	tagError         = 30
)

// version is the protocol's version (RFC 4120 §5.1).
const version = 5

// Options of an AP-REQ (RFC 4120 §5.5.1) and flags of a ticket (§5.3).
const (
	optionUseSessionKey = 1 << 30
	optionMutual        = 1 << 29

	ticketInvalid        = 1 << 24
	ticketTransitChecked = 1 << 19
)

// encrypted is an EncryptedData.
type encrypted struct {
	enctype int32
	kvno    uint32 // 0: absent
	cipher  []byte
}

func (r *reader) encrypted(n byte) encrypted {
	s := r.sequence(n)
	e := encrypted{enctype: s.int32(0)}
	if s.has(1) {
		e.kvno = s.uint32(1)
	}
	e.cipher = s.bytes(2)
	return e
}

func (w writer) encrypted(n byte, e encrypted) {
	w.sequence(n, func(w writer) {
		w.integer(0, int64(e.enctype))
		if e.kvno != 0 {
			w.integer(1, int64(e.kvno))
		}
		w.bytes(2, e.cipher)
	})
}

// A rawKey is an EncryptionKey, of any enctype.
type rawKey struct {
	enctype int32
	value   []byte
}

func (r *reader) key(n byte) rawKey {
	s := r.sequence(n)
	return rawKey{s.int32(0), s.bytes(1)}
}

func (w writer) key(n byte, k key) {
	w.sequence(n, func(w writer) {
		w.integer(0, int64(k.et.id))
		w.bytes(1, k.value)
	})
}

// apReq is an AP-REQ with the readable part of its ticket.
type apReq struct {
	options       uint32
	service       name
	ticket        encrypted
	authenticator encrypted
}

func parseAPReq(b []byte) (apReq, int32, error) {
	var q apReq
	r := openMessage(b, tagAPReq)
	pvno, kind := r.integer(0), r.integer(1)
	q.options = r.flags(2)
	f := r.field(3)
	outer := f.inner(application(tagTicket))
	t := outer.innerOf(asn1.SEQUENCE)
	vno := t.integer(0)
	realm := t.text(1)
	q.service = t.name(2)
	q.service.realm = realm
	q.ticket = t.encrypted(3)
	q.authenticator = r.encrypted(4)
	switch {
	case r.err() != nil:
		return q, apGeneric, r.err()
	case pvno != version || vno != version:
		return q, apBadVersion, errDER
	case kind != tagAPReq:
		return q, apMsgType, errDER
	}
	return q, 0, nil
}

// marshalAPReq encodes an AP-REQ around an encoded ticket.
func marshalAPReq(options uint32, ticket []byte, authenticator encrypted) []byte {
	return message(tagAPReq, func(w writer) {
		w.integer(0, version)
		w.integer(1, tagAPReq)
		w.flags(2, options)
		w.field(3, func(b *cryptobyte.Builder) { b.AddBytes(ticket) })
		w.encrypted(4, authenticator)
	})
}

// ticketPart is the encrypted part of a ticket, without the addresses and the authorization data.
type ticketPart struct {
	flags     uint32
	key       rawKey
	client    name
	transited []byte // names of realms; empty: none
	start     time.Time
	end       time.Time
}

func parseTicketPart(b []byte) (ticketPart, error) {
	r := openMessage(b, tagEncTicket)
	p := ticketPart{flags: r.flags(0), key: r.key(1)}
	realm := r.text(2)
	p.client = r.name(3)
	p.client.realm = realm
	transited := r.sequence(4)
	transited.int32(0)
	p.transited = transited.bytes(1)
	p.start = r.time(5) // authtime, if there is no starttime
	if r.has(6) {
		p.start = r.time(6)
	}
	p.end = r.time(7)
	return p, r.err()
}

// checksumGSS is the checksum type for a context's flags (RFC 4121 §4.1.1).
const checksumGSS = 0x8003

// authenticator is an Authenticator.
type authenticator struct {
	client       name
	checksumType int32
	checksum     []byte
	at           time.Time // with microseconds
	subkey       rawKey    // enctype 0: absent
	seq          uint32
}

func parseAuthenticator(b []byte) (authenticator, error) {
	var a authenticator
	r := openMessage(b, tagAuthenticator)
	r.check(r.integer(0) == version)
	realm := r.text(1)
	a.client = r.name(2)
	a.client.realm = realm
	if r.has(3) {
		c := r.sequence(3)
		a.checksumType, a.checksum = c.int32(0), c.bytes(1)
	}
	a.at = r.microseconds(4, 5)
	if r.has(6) {
		a.subkey = r.key(6)
	}
	if r.has(7) {
		a.seq = r.uint32(7)
	}
	return a, r.err()
}

// microseconds reads a time in two fields: micro is the number of the field with the microseconds,
// second that of the field with the seconds. The lower number is first.
func (r *reader) microseconds(micro, second byte) time.Time {
	var usec int32
	if micro < second {
		usec = r.int32(micro)
	}
	t := r.time(second)
	if micro > second {
		usec = r.int32(micro)
	}
	r.check(usec >= 0 && usec < 1e6)
	return t.Add(time.Duration(usec) * time.Microsecond)
}

func (a authenticator) marshal(subkey key) []byte {
	return message(tagAuthenticator, func(w writer) {
		w.integer(0, version)
		w.text(1, a.client.realm)
		w.name(2, a.client)
		w.sequence(3, func(w writer) {
			w.integer(0, int64(a.checksumType))
			w.bytes(1, a.checksum)
		})
		w.integer(4, int64(a.at.Nanosecond()/1000))
		w.time(5, a.at)
		w.key(6, subkey)
		w.integer(7, int64(a.seq))
	})
}

// apRep is the encrypted part of an AP-REP.
type apRep struct {
	at     time.Time // the authenticator's time
	subkey rawKey    // enctype 0: absent
	seq    uint32
}

func parseAPRep(b []byte) (encrypted, error) {
	r := openMessage(b, tagAPRep)
	r.check(r.integer(0) == version)
	r.check(r.integer(1) == tagAPRep)
	e := r.encrypted(2)
	return e, r.err()
}

func parseAPRepPart(b []byte) (apRep, error) {
	var p apRep
	r := openMessage(b, tagEncAPRep)
	p.at = r.microseconds(1, 0)
	if r.has(2) {
		p.subkey = r.key(2)
	}
	if r.has(3) {
		p.seq = r.uint32(3)
	}
	return p, r.err()
}

func marshalAPRep(e encrypted) []byte {
	return message(tagAPRep, func(w writer) {
		w.integer(0, version)
		w.integer(1, tagAPRep)
		w.encrypted(2, e)
	})
}

func (p apRep) marshal(subkey key) []byte {
	return message(tagEncAPRep, func(w writer) {
		w.time(0, p.at)
		w.integer(1, int64(p.at.Nanosecond()/1000))
		w.key(2, subkey)
		w.integer(3, int64(p.seq))
	})
}

// errorMessage is a KRB-ERROR.
type errorMessage struct {
	at      time.Time // the sender's clock
	code    int32
	service name
	text    string
}

func parseError(b []byte) (errorMessage, error) {
	var e errorMessage
	r := openMessage(b, tagError)
	r.check(r.integer(0) == version)
	r.check(r.integer(1) == tagError)
	for _, n := range []byte{2, 3} { // the client's time
		if r.has(n) {
			r.field(n)
		}
	}
	e.at = r.microseconds(5, 4)
	e.code = r.int32(6)
	for _, n := range []byte{7, 8} { // the client's name
		if r.has(n) {
			r.field(n)
		}
	}
	realm := r.text(9)
	e.service = r.name(10)
	e.service.realm = realm
	if r.has(11) {
		e.text = r.text(11)
	}
	return e, r.err()
}

func (e errorMessage) marshal() []byte {
	return message(tagError, func(w writer) {
		w.integer(0, version)
		w.integer(1, tagError)
		w.time(4, e.at)
		w.integer(5, int64(e.at.Nanosecond()/1000))
		w.integer(6, int64(e.code))
		w.text(9, e.service.realm)
		w.name(10, e.service)
		if e.text != "" {
			w.text(11, e.text)
		}
	})
}
