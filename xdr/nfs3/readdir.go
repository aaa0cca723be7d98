// READDIR (RFC 1813 §3.3.16), and how a server writes entries one by one.

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A ReaddirArgs is the arguments of READDIR.
type ReaddirArgs struct {
	Dir    FH
	Cookie uint64 // 0: from the start; else that of the last entry seen
	Verf   Verf   // zero at the start; else that of the earlier result
	Count  uint32 // the most bytes of READDIR3resok, status not counted
}

// EncodeXDR appends the arguments.
func (a *ReaddirArgs) EncodeXDR(e *xdr.Encoder) {
	a.Dir.EncodeXDR(e)
	e.Uint64(a.Cookie)
	e.Fixed(a.Verf[:])
	e.Uint32(a.Count)
}

// DecodeXDR reads arguments.
func (a *ReaddirArgs) DecodeXDR(d *xdr.Decoder) {
	a.Dir.DecodeXDR(d)
	a.Cookie = d.Uint64()
	decodeVerf(&a.Verf, d)
	a.Count = d.Uint32()
}

// An Entry is one name of a directory (entry3). A decoded Name is a part of the message.
type Entry struct {
	Fileid uint64
	Name   []byte
	Cookie uint64
}

// A ReaddirRes is the result of READDIR. The error arm has DirAttr. When Each
// is set, decoding gives every entry to it, valid during that call only, and
// leaves Entries empty; else Entries is filled, its capacity used again.
type ReaddirRes struct {
	Status  Status
	DirAttr PostOpAttr
	Verf    Verf
	Entries []Entry
	EOF     bool
	Each    func(*Entry)
}

// EncodeXDR appends the result.
func (r *ReaddirRes) EncodeXDR(e *xdr.Encoder) {
	if r.Status != OK {
		encodeDirError(e, r.Status, &r.DirAttr)
		return
	}
	BeginEntries(e, &r.DirAttr, r.Verf)
	for i := range r.Entries {
		n := &r.Entries[i]
		AppendEntry(e, n.Fileid, n.Name, n.Cookie)
	}
	EndEntries(e, r.EOF)
}

// DecodeXDR reads a result.
func (r *ReaddirRes) DecodeXDR(d *xdr.Decoder) {
	decodeStatus(&r.Status, d)
	r.DirAttr.DecodeXDR(d)
	r.Verf, r.Entries, r.EOF = Verf{}, r.Entries[:0], false
	if r.Status != OK {
		return
	}
	decodeVerf(&r.Verf, d)
	var n Entry
	for d.Bool() {
		n.Fileid = d.Uint64()
		n.Name = d.Opaque(MaxName)
		n.Cookie = d.Uint64()
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

// A server writes a directory result in this order: BeginEntries, AppendEntry
// (or AppendEntryPlus) while the sizes allow, EndEntries. What is written is
// ListSize bytes and the EntrySize (EntryPlusSize) of every entry, after the
// status word, which the counts of the arguments do not include.

// ListSize is the bytes of a directory result without entries and status:
// attributes, verifier, end of the list, eof.
func ListSize(dirAttr bool) int { return attrSize(dirAttr) + verfSize + 4 + 4 }

// EntrySize is the bytes that AppendEntry writes for a name of n bytes. It is
// also what an entry of READDIRPLUS counts towards dircount.
func EntrySize(n int) int { return 4 + 8 + 4 + xdr.RoundUp(n) + 8 }

func attrSize(present bool) int {
	if present {
		return 4 + fattrSize
	}
	return 4
}

// BeginEntries appends what stands before the entries of a directory result: OK, attributes,
// verifier.
func BeginEntries(e *xdr.Encoder, dirAttr *PostOpAttr, verf Verf) {
	e.Uint32(uint32(OK))
	dirAttr.EncodeXDR(e)
	e.Fixed(verf[:])
}

// AppendEntry appends one entry of a READDIR result.
func AppendEntry(e *xdr.Encoder, fileid uint64, name []byte, cookie uint64) {
	e.Bool(true)
	e.Uint64(fileid)
	e.Opaque(name)
	e.Uint64(cookie)
}

// EndEntries ends the list of entries and states whether the directory ends there too.
func EndEntries(e *xdr.Encoder, eof bool) {
	e.Bool(false)
	e.Bool(eof)
}

// encodeDirError appends the error arm of a directory result.
func encodeDirError(e *xdr.Encoder, s Status, dirAttr *PostOpAttr) {
	e.Uint32(uint32(s))
	dirAttr.EncodeXDR(e)
}
