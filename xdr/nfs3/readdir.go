// READDIR (RFC 1813 §3.3.16), and writing a server's entries one by one.

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// A ReaddirArgs has READDIR's arguments.
type ReaddirArgs struct {
	Dir    FH
	Cookie uint64 // 0: from the start; otherwise the last seen entry's
	Verf   Verf   // zero at the start; otherwise the previous result's Verf
	Count  uint32 // at most this many bytes of READDIR3resok, without status
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

// An Entry is a directory entry (entry3). A decoded Name aliases the message.
type Entry struct {
	Fileid uint64
	Name   []byte
	Cookie uint64
}

// A ReaddirRes is READDIR's result. The error arm has DirAttr. If Each is set, decoding calls Each
// for every entry, valid only during that call, and leaves Entries empty. Otherwise decoding fills
// Entries, reusing the capacity.
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

// A server writes a directory result in this order: BeginEntries, AppendEntry (or AppendEntryPlus)
// while the sizes permit, EndEntries. The result takes ListSize bytes plus EntrySize
// (EntryPlusSize) for each entry, after the status word, which the arguments' counts exclude.

// ListSize returns a directory result's size in bytes without entries and status: attributes,
// verifier, end of the list, eof.
func ListSize(dirAttr bool) int { return attrSize(dirAttr) + verfSize + 4 + 4 }

// EntrySize returns the number of bytes that AppendEntry writes for a name of n bytes. A
// READDIRPLUS entry adds as many bytes to dircount.
func EntrySize(n int) int { return 4 + 8 + 4 + xdr.RoundUp(n) + 8 }

func attrSize(present bool) int {
	if present {
		return 4 + fattrSize
	}
	return 4
}

// BeginEntries appends the part before a directory result's entries: OK, attributes, verifier.
func BeginEntries(e *xdr.Encoder, dirAttr *PostOpAttr, verf Verf) {
	e.Uint32(uint32(OK))
	dirAttr.EncodeXDR(e)
	e.Fixed(verf[:])
}

// AppendEntry appends an entry to a READDIR result.
func AppendEntry(e *xdr.Encoder, fileid uint64, name []byte, cookie uint64) {
	e.Bool(true)
	e.Uint64(fileid)
	e.Opaque(name)
	e.Uint64(cookie)
}

// EndEntries ends the list of entries; eof reports that the directory ends, too.
func EndEntries(e *xdr.Encoder, eof bool) {
	e.Bool(false)
	e.Bool(eof)
}

// encodeDirError appends a directory result's error arm.
func encodeDirError(e *xdr.Encoder, s Status, dirAttr *PostOpAttr) {
	e.Uint32(uint32(s))
	dirAttr.EncodeXDR(e)
}
