// A security context: its keys, MIC and Wrap tokens (RFC 4121 §4.2).

package krb5

import (
	"crypto/hmac"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/transport/gss"
)

// Key usages of tokens (RFC 4121 §2).
const (
	usageAcceptorSeal  = 22
	usageAcceptorSign  = 23
	usageInitiatorSeal = 24
	usageInitiatorSign = 25
)

// A Context is an established security context. It is safe for concurrent use.
//
// Tokens are numbered, but the order and the repetition of received numbers are not checked.
// RPCSEC_GSS has its own window, and its calls and replies overtake each other (RFC 2203 §5.3.3.1).
type Context struct {
	peer         string
	expires      time.Time
	enctype      *enctype
	sendFlags    byte // in each sent token
	receiveFlags byte
	seq          atomic.Uint64 // the next token's sequence number
	send         usageKeys
	receive      usageKeys
}

// usageKeys are the keys for one direction.
type usageKeys struct {
	sign  *macKey  // for MIC tokens
	seal  *sealKey // for Wrap tokens
	clear *macKey  // for Wrap tokens without confidentiality
}

func newUsageKeys(k key, sign, seal uint32) usageKeys {
	return usageKeys{
		sign:  newMACKey(k.et, k.derive(sign, forChecksum)),
		seal:  newSealKey(k, seal),
		clear: newMACKey(k.et, k.derive(seal, forChecksum)),
	}
}

// A setup is the outcome of context creation at one end.
type setup struct {
	peer           string
	expires        time.Time
	key            key // the acceptor's subkey if it has sent one, otherwise the initiator's
	acceptorSubkey bool
	acceptor       bool   // this end is the acceptor
	seq            uint64 // the first sequence number that this end sends
}

func newContext(s setup) *Context {
	c := &Context{peer: s.peer, expires: s.expires, enctype: s.key.et}
	c.seq.Store(s.seq)
	if s.acceptorSubkey {
		c.sendFlags, c.receiveFlags = flagAcceptorSubkey, flagAcceptorSubkey
	}
	initiator := newUsageKeys(s.key, usageInitiatorSign, usageInitiatorSeal)
	acceptor := newUsageKeys(s.key, usageAcceptorSign, usageAcceptorSeal)
	if s.acceptor {
		c.send, c.receive = acceptor, initiator
		c.sendFlags |= flagSentByAcceptor
	} else {
		c.send, c.receive = initiator, acceptor
		c.receiveFlags |= flagSentByAcceptor
	}
	return c
}

// Principal names the peer, "alice@EXAMPLE.ORG". Characters with a meaning in names are escaped by
// a backslash.
func (c *Context) Principal() string { return c.peer }

// Expires returns the end of the ticket. At an acceptor it includes the clock skew.
func (c *Context) Expires() time.Time { return c.expires }

// Enctype returns the number of the encryption type that protects tokens.
func (c *Context) Enctype() int32 { return c.enctype.id }

// Overhead returns the size of a MIC token and the growth by Wrap, in bytes.
func (c *Context) Overhead() (mic, wrap int) {
	return tokenHeader + c.enctype.macSize, 2*tokenHeader + c.send.seal.overhead()
}

// MIC appends a token over the concatenated parts.
func (c *Context) MIC(dst []byte, parts ...[]byte) []byte {
	s := c.send.sign.begin()
	header{id: idMIC, flags: c.sendFlags, seq: c.seq.Add(1) - 1}.put(s.head[:])
	dst = append(append(dst, s.head[:]...), s.checksum(parts)...)
	s.free()
	return dst
}

// checksum returns the MAC of the parts and the header in the scratch (RFC 4121 §4.2.4).
func (s *macState) checksum(parts [][]byte) []byte {
	if n, ok := s.gather(parts); ok && s.key.et.shortWorks() {
		return s.short(n)
	}
	for _, p := range parts {
		s.hash.Write(p)
	}
	s.hash.Write(s.head[:])
	return s.end()
}

// VerifyMIC checks the peer's MIC token over the concatenated parts.
func (c *Context) VerifyMIC(token []byte, parts ...[]byte) error {
	h, ok := parseHeader(token, idMIC)
	if !ok || len(token) != tokenHeader+c.enctype.macSize {
		return errDefectiveToken
	}
	if err := c.checkFlags(h, 0); err != nil {
		return err
	}
	s := c.receive.sign.begin()
	copy(s.head[:], token)
	same := hmac.Equal(s.checksum(parts), token[tokenHeader:])
	s.free()
	if !same {
		return errBadMIC
	}
	return nil
}

// checkFlags compares a token's known flags: the direction, the key and the protection. A receiver
// ignores the other flags (RFC 4121 §4.2.2).
func (c *Context) checkFlags(h header, sealed byte) error {
	const known = flagSentByAcceptor | flagAcceptorSubkey | flagSealed
	switch wrong := (h.flags ^ (c.receiveFlags | sealed)) & known; {
	case wrong == 0:
		return nil
	case wrong&flagSentByAcceptor != 0:
		return errDirection
	case wrong&flagAcceptorSubkey != 0:
		return errSubkey
	case sealed != 0:
		return errNotSealed
	default:
		return errDefectiveToken
	}
}

// Wrap appends a token with the concatenated parts encrypted.
func (c *Context) Wrap(dst []byte, parts ...[]byte) []byte {
	s := c.send.sign.begin() // for its scratch
	header{id: idWrap, flags: c.sendFlags | flagSealed, seq: c.seq.Add(1) - 1}.put(s.head[:])
	dst = append(dst, s.head[:]...)
	dst = c.send.seal.seal(dst, s.head[:], parts...)
	s.free()
	return dst
}

// Unwrap opens a token from the peer's Wrap, in the token's memory. A token without confidentiality
// is an error.
func (c *Context) Unwrap(token []byte) (plain []byte, err error) {
	h, ok := parseHeader(token, idWrap)
	if !ok {
		return nil, errDefectiveToken
	}
	if err := c.checkFlags(h, flagSealed); err != nil {
		return nil, err
	}
	return c.unseal(token, h)
}

// unseal decrypts the rotated plaintext, filler and copy of the header. In the copy the rotation is
// zero (RFC 4121 §4.2.4).
func (c *Context) unseal(token []byte, h header) ([]byte, error) {
	body := token[tokenHeader:]
	unrotate(body, int(h.rrc))
	plain, err := c.receive.seal.open(body)
	if err != nil {
		return nil, errBadMIC
	}
	n := len(plain) - tokenHeader
	if n < int(h.ec) {
		return nil, errDefectiveToken
	}
	inner := plain[n:]
	if inner[6] != 0 || inner[7] != 0 || !slices.Equal(inner[:6], token[:6]) || !slices.Equal(inner[8:], token[8:tokenHeader]) {
		return nil, errBadMIC
	}
	return plain[:n-int(h.ec)], nil
}

// WrapClear appends a token with the concatenated parts, readable, and a checksum.
func (c *Context) WrapClear(dst []byte, parts ...[]byte) []byte {
	s := c.send.clear.begin()
	h := header{id: idWrap, flags: c.sendFlags, seq: c.seq.Add(1) - 1}
	h.put(s.head[:])
	sum := s.checksum(parts) // with EC and RRC zero (RFC 4121 §4.2.4)
	h.ec = uint16(len(sum))
	h.put(s.head[:])
	dst = append(dst, s.head[:]...)
	for _, p := range parts {
		dst = append(dst, p...)
	}
	dst = append(dst, sum...)
	s.free()
	return dst
}

// UnwrapAny opens a token with or without confidentiality, in the token's memory.
func (c *Context) UnwrapAny(token []byte) (plain []byte, sealed bool, err error) {
	h, ok := parseHeader(token, idWrap)
	if !ok {
		return nil, false, errDefectiveToken
	}
	sealed = h.flags&flagSealed != 0
	if err := c.checkFlags(h, h.flags&flagSealed); err != nil {
		return nil, sealed, err
	}
	if sealed {
		plain, err = c.unseal(token, h)
		return plain, true, err
	}
	body := token[tokenHeader:]
	n := len(body) - c.enctype.macSize
	if n < 0 || int(h.ec) != c.enctype.macSize {
		return nil, false, errDefectiveToken
	}
	unrotate(body, int(h.rrc))
	h.ec, h.rrc = 0, 0
	s := c.receive.clear.begin()
	h.put(s.head[:])
	s.hash.Write(body[:n])
	s.hash.Write(s.head[:])
	same := hmac.Equal(s.end(), body[n:])
	s.free()
	if !same {
		return nil, false, errBadMIC
	}
	return body[:n], false, nil
}

var _ gss.Context = (*Context)(nil)
