// A call's header (call_body, RFC 5531 §9).

package oncrpc

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// Header errors besides malformed XDR. The fields before the error are set.
var (
	ErrNotCall    = errors.New("oncrpc: message is not a call")
	ErrNotReply   = errors.New("oncrpc: message is not a reply")
	ErrRPCVersion = errors.New("oncrpc: RPC version is not 2 (RPC_MISMATCH)")
	ErrCred       = errors.New("oncrpc: credential over 400 bytes (AUTH_BADCRED)")
	ErrVerf       = errors.New("oncrpc: verifier over 400 bytes (AUTH_BADVERF)")
)

// An OpaqueAuth is a credential or a verifier. The zero value is AUTH_NONE. A decoded Body
// aliases the message.
type OpaqueAuth struct {
	Flavor Flavor
	Body   []byte // at most 400 bytes
}

// EncodeXDR appends flavor and body.
func (a *OpaqueAuth) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(a.Flavor))
	e.Opaque(a.Body)
}

// DecodeXDR reads flavor and body; a body over 400 bytes fails with xdr.ErrLimit.
func (a *OpaqueAuth) DecodeXDR(d *xdr.Decoder) { a.decode(d, xdr.ErrLimit) }

// decode reads flavor and body; a body over maxAuth fails with tooLong.
func (a *OpaqueAuth) decode(d *xdr.Decoder, tooLong error) {
	a.Flavor = Flavor(d.Uint32())
	n := d.Uint32()
	if n > maxAuth {
		d.Fail(tooLong)
	}
	a.Body = d.Fixed(int(n))
}

// A CallHeader precedes a call's arguments:
//
//	 0  4  xid
//	 4  4  0 (CALL)
//	 8  4  RPC version, 2
//	12  4  program
//	16  4  its version
//	20  4  procedure
//	24     credential: flavor, length, body
//	       verifier: flavor, length, body
type CallHeader struct {
	XID              uint32
	Prog, Vers, Proc uint32
	Cred, Verf       OpaqueAuth
}

// EncodeXDR appends the header.
func (h *CallHeader) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(h.XID)
	e.Uint32(uint32(Call))
	e.Uint32(RPCVersion)
	e.Uint32(h.Prog)
	e.Uint32(h.Vers)
	e.Uint32(h.Proc)
	h.Cred.EncodeXDR(e)
	h.Verf.EncodeXDR(e)
}

// DecodeXDR reads a header. Besides XDR errors it fails with ErrNotCall, ErrRPCVersion, ErrCred and
// ErrVerf; XID is set with all four errors, so that the call can be answered.
func (h *CallHeader) DecodeXDR(d *xdr.Decoder) {
	*h = CallHeader{XID: d.Uint32()}
	if MsgType(d.Uint32()) != Call {
		d.Fail(ErrNotCall)
	}
	if d.Uint32() != RPCVersion {
		d.Fail(ErrRPCVersion)
	}
	h.Prog = d.Uint32()
	h.Vers = d.Uint32()
	h.Proc = d.Uint32()
	h.Cred.decode(d, ErrCred)
	h.Verf.decode(d, ErrVerf)
}
