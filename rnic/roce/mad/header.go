// The header that all management datagrams have, and the check of one that arrives.

package mad

import (
	"encoding/binary"
	"errors"
)

// MAD header (IBA 13.4.3):
//
//	off  size  field
//	  0     1  BaseVersion: 1
//	  1     1  MgmtClass: 0x07 is communication management
//	  2     1  ClassVersion: 2
//	  3     1  Method, R 0x80
//	  4     2  Status
//	  6     2  ClassSpecific
//	  8     8  TransactionID
//	 16     2  AttributeID: which message
//	 18     2  reserved
//	 20     4  AttributeModifier
const (
	Len       = 256
	HeaderLen = 24
	DataLen   = Len - HeaderLen

	baseVersion    = 1
	classCM        = 0x07
	classVersionCM = 2
	methodSend     = 0x03 // all messages of chapter 12: none is a Get with its GetResp
)

// The general services interface: where datagrams go, and the key they carry (IBA 13.5.3).
const (
	GSIQPN  = 1
	GSIQKey = 0x80010000
)

// What can be wrong with a datagram. It is dropped, except that ErrClassVersion of a
// REQ is answered with a REJ, RejClassVersion.
var (
	errLength       = errors.New("management datagram is not 256 bytes")
	errBaseVersion  = errors.New("management datagram of another base version than 1")
	errClass        = errors.New("management datagram of another class than communication management")
	errMethod       = errors.New("communication management with another method than Send")
	ErrClassVersion = errors.New("communication management of another version than 2")
)

// Data is what follows the header: the bytes of one message.
type Data [DataLen]byte

// A Header is the header of a datagram. BaseVersion is not in it, since Parse lets
// only 1 pass.
type Header struct {
	Class         uint8
	ClassVersion  uint8
	Method        uint8
	Status        uint16 // 0 in what a Send carries
	ClassSpecific uint16
	TransactionID uint64 // of the REQ's sender; all that belongs to one exchange has the same
	Attribute     Attribute
	Modifier      uint32 // 0 in communication management
}

// NewHeader returns the header of a message of communication management.
func NewHeader(a Attribute, transactionID uint64) Header {
	return Header{Class: classCM, ClassVersion: classVersionCM, Method: methodSend, TransactionID: transactionID, Attribute: a}
}

// Append appends the HeaderLen bytes; those of a message have to follow.
func (h *Header) Append(b []byte) []byte {
	b = append(b, baseVersion, h.Class, h.ClassVersion, h.Method)
	b = binary.BigEndian.AppendUint16(b, h.Status)
	b = binary.BigEndian.AppendUint16(b, h.ClassSpecific)
	b = binary.BigEndian.AppendUint64(b, h.TransactionID)
	b = binary.BigEndian.AppendUint16(b, uint16(h.Attribute))
	b = binary.BigEndian.AppendUint16(b, 0)
	return binary.BigEndian.AppendUint32(b, h.Modifier)
}

// Parse reads the header of a datagram, which is the whole payload of a packet, without
// pad and ICRC. data aliases b.
func Parse(b []byte) (h Header, data *Data, err error) {
	if len(b) != Len {
		return h, nil, errLength
	}
	if b[0] != baseVersion {
		return h, nil, errBaseVersion
	}
	h = Header{
		Class:         b[1],
		ClassVersion:  b[2],
		Method:        b[3],
		Status:        binary.BigEndian.Uint16(b[4:]),
		ClassSpecific: binary.BigEndian.Uint16(b[6:]),
		TransactionID: binary.BigEndian.Uint64(b[8:]),
		Attribute:     Attribute(binary.BigEndian.Uint16(b[16:])),
		Modifier:      binary.BigEndian.Uint32(b[20:]),
	}
	return h, (*Data)(b[HeaderLen:]), nil
}

// CheckCM checks that the datagram is one of communication management. Queue pair 1
// receives those of other classes too, from subnet and performance managers; nothing
// here answers them. Status is not looked at: a Send has none (IBA 13.4.7).
func (h *Header) CheckCM() error {
	switch {
	case h.Class != classCM:
		return errClass
	case h.Method != methodSend:
		return errMethod
	case h.ClassVersion != classVersionCM: // last: only a CM message deserves the REJ
		return ErrClassVersion
	}
	return nil
}
