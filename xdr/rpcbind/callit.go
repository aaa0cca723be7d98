// Arguments and results for calls through a port mapper (RFC 1833 §2.2.1, §3.1).

package rpcbind

import "github.com/nfsrdma/nfsrdma/xdr"

// CallArgs are the arguments of CALLIT and BCAST (call_args, rpcb_rmtcallargs): a procedure of a
// program on the port mapper's machine, and its encoded arguments.
type CallArgs struct {
	Prog, Vers, Proc uint32
	Args             []byte // aliases the message after DecodeXDR
}

// EncodeXDR appends the arguments.
func (a *CallArgs) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(a.Prog)
	e.Uint32(a.Vers)
	e.Uint32(a.Proc)
	e.Opaque(a.Args)
}

// DecodeXDR reads arguments; more than maxCallit bytes fail with xdr.ErrLimit.
func (a *CallArgs) DecodeXDR(d *xdr.Decoder) {
	a.Prog, a.Vers, a.Proc = d.Uint32(), d.Uint32(), d.Uint32()
	a.Args = d.Opaque(maxCallit)
}

// A CallRes is the result of CALLIT in version 2: the program's port, and its encoded results.
type CallRes struct {
	Port    uint32
	Results []byte // aliases the message after DecodeXDR
}

// EncodeXDR appends the result.
func (r *CallRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(r.Port)
	e.Opaque(r.Results)
}

// DecodeXDR reads a result; more than maxCallit bytes fail with xdr.ErrLimit.
func (r *CallRes) DecodeXDR(d *xdr.Decoder) {
	r.Port, r.Results = d.Uint32(), d.Opaque(maxCallit)
}

// A RemoteRes is the result of CALLIT in version 3, and of BCAST (rpcb_rmtcallres): the program's
// universal address, and its encoded results.
type RemoteRes struct {
	Addr    string
	Results []byte // aliases the message after DecodeXDR
}

// EncodeXDR appends the result.
func (r *RemoteRes) EncodeXDR(e *xdr.Encoder) {
	e.String(r.Addr)
	e.Opaque(r.Results)
}

// DecodeXDR reads a result; a longer address or more than maxCallit bytes fail with xdr.ErrLimit.
func (r *RemoteRes) DecodeXDR(d *xdr.Decoder) {
	r.Addr, r.Results = d.String(maxString), d.Opaque(maxCallit)
}
