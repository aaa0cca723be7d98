// READDIRPLUS (RFC 1813 §3.3.17).

package nfs3

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A ReaddirplusArgs has READDIRPLUS's arguments.
type ReaddirplusArgs struct {
	Dir      FH
	Cookie   uint64 // 0: from the start; otherwise the last seen entry's
	Verf     Verf   // zero at the start; otherwise the previous result's Verf
	Dircount uint32 // at most this many bytes of entries, without attributes and handles
	Maxcount uint32 // at most this many bytes of READDIRPLUS3resok, without status
}

// EncodeXDR appends the arguments.
func (a *ReaddirplusArgs) EncodeXDR(e *xdr.Encoder) {
	a.Dir.EncodeXDR(e)
	e.Uint64(a.Cookie)
	e.Fixed(a.Verf[:])
	e.Uint32(a.Dircount)
	e.Uint32(a.Maxcount)
}

// DecodeXDR reads arguments.
func (a *ReaddirplusArgs) DecodeXDR(d *xdr.Decoder) {
	a.Dir.DecodeXDR(d)
	a.Cookie = d.Uint64()
	decodeVerf(&a.Verf, d)
	a.Dircount = d.Uint32()
	a.Maxcount = d.Uint32()
}

// An EntryPlus is a directory entry with attributes and handle (entryplus3). A decoded Name
// aliases the message.
type EntryPlus struct {
	Fileid uint64
	Name   []byte
	Cookie uint64
	Attr   PostOpAttr
	FH     PostOpFH
}

// A ReaddirplusRes is READDIRPLUS's result; see ReaddirRes.
type ReaddirplusRes struct {
	Status  Status
	DirAttr PostOpAttr
	Verf    Verf
	Entries []EntryPlus
	EOF     bool
	Each    func(*EntryPlus)
}

// EncodeXDR appends the result.
func (r *ReaddirplusRes) EncodeXDR(e *xdr.Encoder) {
	if r.Status != OK {
		encodeDirError(e, r.Status, &r.DirAttr)
		return
	}
	BeginEntries(e, &r.DirAttr, r.Verf)
	for i := range r.Entries {
		n := &r.Entries[i]
		AppendEntryPlus(e, n.Fileid, n.Name, n.Cookie, &n.Attr, &n.FH)
	}
	EndEntries(e, r.EOF)
}

// DecodeXDR reads a result.
func (r *ReaddirplusRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.DirAttr.DecodeXDR(d)
	r.Verf, r.Entries, r.EOF = Verf{}, r.Entries[:0], false
	if r.Status != OK {
		return
	}
	decodeVerf(&r.Verf, d)
	var n EntryPlus
	for d.Bool() {
		n.decode(d)
		switch {
		case d.Err() != nil:
			return
		case r.Each != nil:
			r.Each(&n)
		default:
			r.Entries = append(r.Entries, n)
		}
	}
	r.EOF = d.Bool()
}

func (n *EntryPlus) decode(d *xdr.Decoder) {
	n.Fileid = d.Uint64()
	n.Name = d.Opaque(MaxName)
	n.Cookie = d.Uint64()
	n.Attr.DecodeXDR(d)
	n.FH.DecodeXDR(d)
}

// EntryPlusSize returns the number of bytes that AppendEntryPlus writes for a name of n bytes.
func EntryPlusSize(n int, attr *PostOpAttr, fh *PostOpFH) int {
	size := EntrySize(n) + attrSize(attr.Present) + 4
	if fh.Present {
		size += 4 + xdr.RoundUp(fh.FH.Len())
	}
	return size
}

// AppendEntryPlus appends an entry to a READDIRPLUS result (see ListSize). It appends each entry in
// one step, since a reply has thousands of entries.
func AppendEntryPlus(e *xdr.Encoder, fileid uint64, name []byte, cookie uint64, attr *PostOpAttr, fh *PostOpFH) {
	b := e.Space(EntryPlusSize(len(name), attr, fh))
	putWord(b, true)
	binary.BigEndian.PutUint64(b[4:], fileid)
	b = putOpaque(b[12:], name)
	binary.BigEndian.PutUint64(b, cookie)
	b = b[8:]
	putWord(b, attr.Present)
	if b = b[4:]; attr.Present {
		attr.Attr.put((*[fattrSize]byte)(b))
		b = b[fattrSize:]
	}
	putWord(b, fh.Present)
	if fh.Present {
		putOpaque(b[4:], fh.FH.Bytes())
	}
}

// putWord writes a boolean.
func putWord(b []byte, v bool) {
	n := uint32(0)
	if v {
		n = 1
	}
	binary.BigEndian.PutUint32(b, n)
}

// putOpaque writes p's length, bytes and pad, and returns the rest.
func putOpaque(b, p []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(p)))
	n := 4 + copy(b[4:], p)
	end := xdr.RoundUp(n)
	clear(b[n:end])
	return b[end:]
}
