// READ (RFC 1813 §3.3.6).

package nfs3

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A ReadArgs has READ's arguments.
type ReadArgs struct {
	FH     FH
	Offset uint64
	Count  uint32 // bytes
}

// EncodeXDR appends the arguments.
func (a *ReadArgs) EncodeXDR(e *xdr.Encoder) {
	a.FH.EncodeXDR(e)
	e.Uint64(a.Offset)
	e.Uint32(a.Count)
}

// DecodeXDR reads arguments.
func (a *ReadArgs) DecodeXDR(d *xdr.Decoder) {
	a.FH.DecodeXDR(d)
	a.Offset = d.Uint64()
	a.Count = d.Uint32()
}

// A ReadRes is READ's result. Data may travel as a Write chunk (RFC 8267 §2.1): encoding keeps
// the slice until the message has been sent, and decoded Data aliases the message or its detached
// item. Count is len(Data). The error arm has Attr.
type ReadRes struct {
	Status Status
	Attr   PostOpAttr
	Count  uint32
	EOF    bool
	Data   []byte
}

// EncodeXDR appends the result, Data as an item.
func (r *ReadRes) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.Attr.EncodeXDR(e)
	if r.Status == OK {
		e.Uint32(r.Count)
		e.Bool(r.EOF)
		e.Item(r.Data)
	}
}

// CutRead shortens an encoded ReadRes to n bytes of data. stream is the part before the data. end
// reports that the file ends after the n bytes.
func CutRead(stream []byte, n int, end bool) {
	w := stream[len(stream)-3*4:] // count, eof, length of data
	binary.BigEndian.PutUint32(w, uint32(n))
	binary.BigEndian.PutUint32(w[4:], 0)
	if end {
		w[7] = 1
	}
	binary.BigEndian.PutUint32(w[8:], uint32(n))
}

// DecodeXDR reads a result; a count that differs from the data's length fails with xdr.ErrValue.
func (r *ReadRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.Attr.DecodeXDR(d)
	r.Count, r.EOF, r.Data = 0, false, nil
	if r.Status != OK {
		return
	}
	r.Count = d.Uint32()
	r.EOF = d.Bool()
	r.Data = d.Item(maxData)
	if uint64(r.Count) != uint64(len(r.Data)) {
		d.Fail(xdr.ErrValue)
	}
}
