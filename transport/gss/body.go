// Protected arguments and results, and verifiers (RFC 2203 §5.3).

package gss

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A protection implements the parts of transport.Protection that client and server share. Bodies:
//
//	integrity  length │ sequence number, plain bytes │ length, MIC over the middle part
//	privacy    length │ token that seals: sequence number, plain bytes
type protection struct{ Context }

var (
	errBodySeq = errors.New("gss: the protected body has another sequence number than its credential")
	errBody    = errors.New("gss: the protected body does not decode")
)

// number returns s's sequence number as the MIC's only part.
func number(s *transport.Secured, n uint32) [][]byte {
	binary.BigEndian.PutUint32(s.Word[:], n)
	s.Parts = append(s.Parts[:0], s.Word[:])
	return s.Parts
}

// Verifier returns the MIC over the call's sequence number.
func (p *protection) Verifier(s *transport.Secured) []byte {
	s.Token = p.MIC(s.Token[:0], number(s, s.Seq)...)
	return s.Token
}

// Check checks the MIC over the call's sequence number.
func (p *protection) Check(s *transport.Secured, verf []byte) error {
	return p.VerifyMIC(verf, number(s, s.Seq)...)
}

// Sign returns the MIC over a call's header.
func (p *protection) Sign(s *transport.Secured, head []byte) []byte {
	s.Parts = append(s.Parts[:0], head)
	s.Token = p.MIC(s.Token[:0], s.Parts...)
	return s.Token
}

// checkHeader checks a call's verifier.
func (p *protection) checkHeader(s *transport.Secured, head, verf []byte) error {
	s.Parts = append(s.Parts[:0], head)
	return p.VerifyMIC(verf, s.Parts...)
}

// Reserve appends the body's length, set by Seal, and the sequence number.
func (p *protection) Reserve(s *transport.Secured, e *xdr.Encoder) {
	e.Uint32(0)
	e.Uint32(s.Seq)
}

// Seal protects the body, which begins at offset at with Reserve's bytes.
func (p *protection) Seal(s *transport.Secured, e *xdr.Encoder, at int, m transport.Memory) error {
	n := p.gather(s, e, at+4)
	if s.Service == transport.ServiceIntegrity {
		e.SetUint32(at, uint32(n))
		s.Token = p.MIC(s.Token[:0], s.Parts...)
		e.Opaque(s.Token)
		return nil
	}
	_, grow := p.Overhead()
	if n+grow <= shortBody {
		s.Sealed = p.Wrap(s.Sealed[:0], s.Parts...)
		e.Truncate(at)
		e.Opaque(s.Sealed)
		return nil
	}
	buf := m.Buffer(n + grow)
	if buf == nil {
		return transport.ErrNoMemory
	}
	token := p.Wrap(buf[:0], s.Parts...)
	e.Truncate(at)
	e.Item(token)
	return nil
}

// shortBody is the size of a body that is sealed in scratch memory and copied. All results in the
// duplicate request cache are shorter, so repeating them never waits for memory.
const shortBody = 4 << 10

// gather sets s.Parts to the message from offset at on, with its items in place and padded, and
// returns its length.
func (p *protection) gather(s *transport.Secured, e *xdr.Encoder, at int) (n int) {
	s.Parts = s.Parts[:0]
	add := func(b []byte) {
		if len(b) > 0 {
			s.Parts = append(s.Parts, b)
			n += len(b)
		}
	}
	stream := e.Bytes()
	for _, it := range e.Items() {
		add(stream[at:it.Off])
		add(it.Data)
		add(zeroPad[:xdr.Pad(len(it.Data))])
		at = it.Off
	}
	add(stream[at:])
	return n
}

var zeroPad [3]byte

// Open resets d to the plain bytes of the body that is the rest of d.
func (p *protection) Open(s *transport.Secured, d *xdr.Decoder) error {
	body := d.Opaque(d.Remaining())
	if s.Service == transport.ServiceIntegrity {
		mic := d.Opaque(d.Remaining())
		if d.Err() != nil {
			return errBody
		}
		s.Parts = append(s.Parts[:0], body)
		if err := p.VerifyMIC(mic, s.Parts...); err != nil {
			return err
		}
	} else {
		var err error
		if d.Err() != nil {
			return errBody
		}
		if body, err = p.Unwrap(body); err != nil {
			return err
		}
	}
	if len(body) < 4 {
		return errBody
	}
	if binary.BigEndian.Uint32(body) != s.Seq {
		return errBodySeq
	}
	d.Reset(body[4:], nil)
	return nil
}

// overhead is Protection.Overhead: the verifier's body, and the body's lengths, sequence number,
// and token or growth with padding.
func (p *protection) overhead(s *transport.Secured) int {
	mic, wrap := p.Overhead()
	n := xdr.RoundUp(mic)
	switch s.Service {
	case transport.ServiceIntegrity:
		n += 12 + xdr.RoundUp(mic)
	case transport.ServicePrivacy:
		n += 8 + xdr.RoundUp(wrap+3)
	}
	return n
}
