// Sattr: attributes to set (sattr3, RFC 1813 §2.6).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A TimeHow says how to set a time stamp.
type TimeHow uint32

// The ways to set a time stamp.
const (
	DontChange TimeHow = iota
	SetToServerTime
	SetToClientTime
)

func (h TimeHow) String() string { return nameOf(timeHowNames[:], uint32(h), "time_how") }

var timeHowNames = [...]string{"DONT_CHANGE", "SET_TO_SERVER_TIME", "SET_TO_CLIENT_TIME"}

// A Sattr has attributes to set; attributes without their Set flag stay unchanged.
type Sattr struct {
	SetMode, SetUID, SetGID, SetSize bool

	Mode, UID, GID uint32
	Size           uint64

	AtimeHow, MtimeHow TimeHow
	Atime, Mtime       Time // used with SetToClientTime only
}

// EncodeXDR appends the attributes.
func (s *Sattr) EncodeXDR(e *xdr.Encoder) {
	encodeSet(e, s.SetMode, s.Mode)
	encodeSet(e, s.SetUID, s.UID)
	encodeSet(e, s.SetGID, s.GID)
	e.Bool(s.SetSize)
	if s.SetSize {
		e.Uint64(s.Size)
	}
	encodeSetTime(e, s.AtimeHow, &s.Atime)
	encodeSetTime(e, s.MtimeHow, &s.Mtime)
}

// DecodeXDR reads attributes to set.
func (s *Sattr) DecodeXDR(d *xdr.Decoder) {
	*s = Sattr{}
	s.SetMode, s.Mode = decodeSet(d)
	s.SetUID, s.UID = decodeSet(d)
	s.SetGID, s.GID = decodeSet(d)
	if s.SetSize = d.Bool(); s.SetSize {
		s.Size = d.Uint64()
	}
	s.AtimeHow = decodeSetTime(d, &s.Atime)
	s.MtimeHow = decodeSetTime(d, &s.Mtime)
}

func encodeSet(e *xdr.Encoder, set bool, v uint32) {
	e.Bool(set)
	if set {
		e.Uint32(v)
	}
}

func decodeSet(d *xdr.Decoder) (bool, uint32) {
	if !d.Bool() {
		return false, 0
	}
	return true, d.Uint32()
}

func encodeSetTime(e *xdr.Encoder, how TimeHow, t *Time) {
	e.Uint32(uint32(how))
	if how == SetToClientTime {
		t.encode(e)
	}
}

func decodeSetTime(d *xdr.Decoder, t *Time) TimeHow {
	how := TimeHow(d.Uint32())
	switch {
	case how == SetToClientTime:
		t.decode(d)
	case how > SetToClientTime:
		d.Fail(xdr.ErrValue)
	}
	return how
}
