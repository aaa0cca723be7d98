// The messages: credential, and arguments and results of context creation (RFC 2203 §5).

package gss

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// version is RPCSEC_GSS_VERS_1.
const version = 1

// A message is the kind of a call (rpc_gss_proc_t).
type message uint32

const (
	messageData message = iota
	messageInit
	messageContinue
	messageDestroy
	messages
)

// maxSeq ends the sequence numbers (MAXSEQ): all are below.
const maxSeq = 0x80000000

// windowSize is the server's sequence window. Smaller ones have made clients hang: a call delayed
// behind as many others would be dropped.
const windowSize = 512

// Size limits, in bytes.
const (
	maxCred       = 400      // RFC 5531 §8.2
	maxToken      = 72 << 10 // tickets of Active Directory have at most 64 KiB
	maxReplyToken = 4 << 10  // in a reply to our client
	credFixed     = 20       // a credential without its handle
)

var (
	errVersion    = errors.New("gss: credential of another version")
	errCredential = errors.New("gss: credential does not decode")
)

// A credential is a call's credential (rpc_gss_cred_t):
//
//	 0  4  version, 1
//	 4  4  message
//	 8  4  sequence number
//	12  4  service
//	16     handle: length, bytes
type credential struct {
	message message
	seq     uint32
	service transport.Service
	handle  []byte // in the message's memory
}

// parse reads a credential's body. With errVersion, c.message is the body's message if the rest has
// the format of version 1; otherwise it is messages.
func (c *credential) parse(body []byte) error {
	var d xdr.Decoder
	d.Reset(body, nil)
	v := d.Uint32()
	*c = credential{message: message(d.Uint32()), seq: d.Uint32(), service: transport.Service(d.Uint32()), handle: d.Opaque(maxCred)}
	sound := d.Err() == nil && d.Remaining() == 0 && c.message < messages
	switch {
	case len(body) >= 4 && v != version:
		if !sound {
			c.message = messages
		}
		return errVersion
	case !sound:
		return errCredential
	}
	return nil
}

// append appends the body.
func (c *credential) append(b []byte) []byte {
	for _, v := range [...]uint32{version, uint32(c.message), c.seq, uint32(c.service), uint32(len(c.handle))} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, c.handle...)
	var zeros [3]byte
	return append(b, zeros[:xdr.Pad(len(c.handle))]...)
}

// An initArg is the argument of context creation (rpc_gss_init_arg).
type initArg struct{ token []byte }

func (a *initArg) EncodeXDR(e *xdr.Encoder) { e.Opaque(a.token) }
func (a *initArg) DecodeXDR(d *xdr.Decoder) { a.token = d.Opaque(maxToken) }

// An initRes is the result of context creation (rpc_gss_init_res). Decoded slices are copies.
type initRes struct {
	handle       []byte
	major, minor uint32
	window       uint32
	token        []byte
}

func (r *initRes) EncodeXDR(e *xdr.Encoder) {
	e.Opaque(r.handle)
	e.Uint32(r.major)
	e.Uint32(r.minor)
	e.Uint32(r.window)
	e.Opaque(r.token)
}

func (r *initRes) DecodeXDR(d *xdr.Decoder) {
	r.handle = append([]byte(nil), d.Opaque(maxCred-credFixed)...)
	r.major, r.minor, r.window = d.Uint32(), d.Uint32(), d.Uint32()
	r.token = append([]byte(nil), d.Opaque(maxToken)...)
}

// failed reports whether a major status is an error: any with a routine or calling error.
func failed(major uint32) bool { return major&0xffff0000 != 0 }
