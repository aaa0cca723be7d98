// A reply's header (reply_body, RFC 5531 §9).

package oncrpc

import "github.com/nfsrdma/nfsrdma/xdr"

// ReplySize is a successful reply's header size with an empty verifier body, in bytes.
const ReplySize = 24

// A ReplyHeader precedes a reply's results:
//
//	 0  4  xid
//	 4  4  1 (REPLY)
//	 8  4  0 accepted                    1 denied
//	12     verifier: flavor, length, body   reject_stat
//	       accept_stat                      RPC_MISMATCH: low, high; AUTH_ERROR: auth_stat
//	       PROG_MISMATCH: low, high
type ReplyHeader struct {
	XID    uint32
	Denied bool

	// For an accepted call.
	Verf   OpaqueAuth
	Accept AcceptStat

	// For a denied call.
	Reject RejectStat
	Auth   AuthStat // with AuthError

	Low, High uint32 // supported versions, with ProgMismatch and RPCMismatch
}

// OK reports whether results follow.
func (h *ReplyHeader) OK() bool { return !h.Denied && h.Accept == Success }

// EncodeXDR appends the header.
func (h *ReplyHeader) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(h.XID)
	e.Uint32(uint32(Reply))
	e.Bool(h.Denied)
	if !h.Denied {
		h.Verf.EncodeXDR(e)
		e.Uint32(uint32(h.Accept))
		if h.Accept == ProgMismatch {
			e.Uint32(h.Low)
			e.Uint32(h.High)
		}
		return
	}
	e.Uint32(uint32(h.Reject))
	if h.Reject == RPCMismatch {
		e.Uint32(h.Low)
		e.Uint32(h.High)
	} else {
		e.Uint32(uint32(h.Auth))
	}
}

// DecodeXDR reads a header. Besides XDR errors it fails with ErrNotReply and ErrVerf, with XID set;
// invalid enumeration values fail with xdr.ErrValue.
func (h *ReplyHeader) DecodeXDR(d *xdr.Decoder) {
	*h = ReplyHeader{XID: d.Uint32()}
	if MsgType(d.Uint32()) != Reply {
		d.Fail(ErrNotReply)
	}
	if h.Denied = d.Bool(); h.Denied {
		h.decodeDenied(d)
		return
	}
	h.Verf.decode(d, ErrVerf)
	h.Accept = AcceptStat(d.Uint32())
	switch {
	case h.Accept == ProgMismatch:
		h.Low = d.Uint32()
		h.High = d.Uint32()
	case h.Accept > SystemErr:
		d.Fail(xdr.ErrValue)
	}
}

func (h *ReplyHeader) decodeDenied(d *xdr.Decoder) {
	h.Reject = RejectStat(d.Uint32())
	switch h.Reject {
	case RPCMismatch:
		h.Low = d.Uint32()
		h.High = d.Uint32()
	case AuthError:
		h.Auth = AuthStat(d.Uint32())
	default:
		d.Fail(xdr.ErrValue)
	}
}
