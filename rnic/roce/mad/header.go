// The header common to all management datagrams, and its checks.

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

// The general services interface: the datagrams' destination QPN and Q_Key (IBA 13.5.3).
const (
	GSIQPN  = 1
	GSIQKey = 0x80010000
)

// Errors for an invalid datagram, which is dropped. The exception is ErrClassVersion for a REQ,
// which is answered by a REJ with RejClassVersion.
var (
	errLength       = errors.New("management datagram is not 256 bytes")
	errBaseVersion  = errors.New("management datagram of another base version than 1")
	errClass        = errors.New("management datagram of another class than communication management")
	errMethod       = errors.New("communication management with another method than Send")
	ErrClassVersion = errors.New("communication management of another version than 2")
)

// Data is the datagram after the header: one message.
type Data [DataLen]byte

// A Header is a datagram's header, without BaseVersion: Parse accepts only 1.
type Header struct {
	Class         uint8
	ClassVersion  uint8
	Method        uint8
	Status        uint16 // 0 for a Send
	ClassSpecific uint16
	TransactionID uint64 // chosen by the REQ's sender, common to all messages of an exchange
	Attribute     Attribute
	Modifier      uint32 // 0 for communication management
}

// NewHeader returns a communication management message's header.
func NewHeader(a Attribute, transactionID uint64) Header {
	return Header{Class: classCM, ClassVersion: classVersionCM, Method: methodSend, TransactionID: transactionID, Attribute: a}
}

// Append appends the HeaderLen bytes; a message must follow.
func (h *Header) Append(b []byte) []byte {
	b = append(b, baseVersion, h.Class, h.ClassVersion, h.Method)
	b = binary.BigEndian.AppendUint16(b, h.Status)
	b = binary.BigEndian.AppendUint16(b, h.ClassSpecific)
	b = binary.BigEndian.AppendUint64(b, h.TransactionID)
	b = binary.BigEndian.AppendUint16(b, uint16(h.Attribute))
	b = binary.BigEndian.AppendUint16(b, 0)
	return binary.BigEndian.AppendUint32(b, h.Modifier)
}

// Parse reads a datagram's header. b is the whole packet payload without pad and ICRC; data
// aliases it.
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

// CheckCM checks that the datagram belongs to communication management. Queue pair 1 also
// receives other classes, from subnet and performance managers, which get no answer. Status is
// ignored: a Send has none (IBA 13.4.7).
func (h *Header) CheckCM() error {
	switch {
	case h.Class != classCM:
		return errClass
	case h.Method != methodSend:
		return errMethod
	case h.ClassVersion != classVersionCM: // last, because only a CM message gets the REJ
		return ErrClassVersion
	}
	return nil
}
