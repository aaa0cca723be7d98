// AuthSys: an AUTH_SYS credential's body (authsys_parms, RFC 5531 appendix A).

package oncrpc

import "github.com/nfsrdma/nfsrdma/xdr"

// Limits of AUTH_SYS.
const (
	MaxMachine = 255 // bytes in a machine name
	MaxGIDs    = 16  // supplementary groups
)

// An AuthSys is a caller's AUTH_SYS identity. A decoded Machine aliases the message.
type AuthSys struct {
	Stamp   uint32
	Machine []byte
	UID     uint32
	GID     uint32
	NumGIDs int             // at most MaxGIDs
	GIDs    [MaxGIDs]uint32 // only the first NumGIDs are used
}

// Groups returns the supplementary groups, aliasing a.
func (a *AuthSys) Groups() []uint32 { return a.GIDs[:a.NumGIDs] }

// SetGroups keeps the first 16 gids.
func (a *AuthSys) SetGroups(gids []uint32) { a.NumGIDs = copy(a.GIDs[:], gids) }

// EncodeXDR appends the body, without flavor and length.
func (a *AuthSys) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(a.Stamp)
	e.Opaque(a.Machine)
	e.Uint32(a.UID)
	e.Uint32(a.GID)
	e.Uint32(uint32(a.NumGIDs))
	for _, g := range a.Groups() {
		e.Uint32(g)
	}
}

// DecodeXDR reads a body; more than 16 groups, or a machine name over 255 bytes, fail with
// xdr.ErrLimit.
func (a *AuthSys) DecodeXDR(d *xdr.Decoder) {
	*a = AuthSys{Stamp: d.Uint32(), Machine: d.Opaque(MaxMachine), UID: d.Uint32(), GID: d.Uint32()}
	n := d.Uint32()
	if n > MaxGIDs {
		d.Fail(xdr.ErrLimit)
		return
	}
	for i := range a.GIDs[:n] {
		a.GIDs[i] = d.Uint32()
	}
	if d.Err() == nil {
		a.NumGIDs = int(n)
	}
}

// Parse reads an AUTH_SYS credential's whole body; remaining bytes are an error.
func (a *AuthSys) Parse(body []byte) error {
	var d xdr.Decoder
	d.Reset(body, nil)
	a.DecodeXDR(&d)
	if d.Remaining() > 0 {
		d.Fail(xdr.ErrValue)
	}
	return d.Err()
}
