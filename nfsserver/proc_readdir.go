// READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// preferredDir is the count recommended to clients (dtpref).
const preferredDir = 64 << 10

// minListing is the smallest growth of a listing, in bytes.
const minListing = 16 << 10

// A page is the result of READDIR or READDIRPLUS. It encodes each entry as the FS emits it, so it
// needs no memory besides the reply's.
type page struct {
	status nfs3.Status
	attr   nfs3.PostOpAttr
	eof    bool

	// State while entries are encoded; q is set from the first byte on.
	q        *request
	start    int // offset of the results in the reply
	room     int // bytes left of count or maxcount
	dirRoom  int // bytes left of dircount
	entries  int
	busy     bool // the server's memory budget is spent
	withAttr bool // for READDIRPLUS
}

// SetStatus sets the status. A status other than OK drops the entries.
func (p *page) SetStatus(s nfs3.Status) { p.status = s }

// EncodeXDR ends the results, or replaces them by the results of an error.
func (p *page) EncodeXDR(e *xdr.Encoder) {
	if p.status == nfs3.OK {
		nfs3.EndEntries(e, p.eof)
		return
	}
	if p.q != nil {
		e.Truncate(p.start)
	}
	res := nfs3.ReaddirRes{Status: p.status, DirAttr: p.attr}
	res.EncodeXDR(e)
}

func readdir(q *request, a *nfs3.ReaddirArgs, p *page) error {
	return p.list(q, a.Cookie, a.Verf, a.Count)
}

func readdirplus(q *request, a *nfs3.ReaddirplusArgs, p *page) error {
	p.withAttr, p.dirRoom = true, int(min(a.Dircount, MaxIO))
	return p.list(q, a.Cookie, a.Verf, a.Maxcount)
}

// list encodes entries while they fit into count bytes.
func (p *page) list(q *request, cookie uint64, verf nfs3.Verf, count uint32) error {
	at, err := q.attr()
	if err != nil {
		return err
	}
	p.attr = postOp(&at)
	switch {
	case at.Type != TypeDir:
		return nfs3.ErrNotDir
	case cookie != 0 && verf != q.x.verf && verf != (nfs3.Verf{}):
		// Accept a zero verifier, sent by a client that keeps none. Other servers accept it too,
		// and the FS checks each cookie anyway.
		return nfs3.ErrBadCookie
	}
	p.room = int(min(count, MaxIO)) - nfs3.ListSize(true)
	if p.room < 0 {
		return nfs3.ErrTooSmall
	}
	w := q.who()
	p.q, p.start = q, q.call.Res.Len()
	nfs3.BeginEntries(q.call.Res, &p.attr, q.x.verf)
	p.eof, err = q.x.fs.ReadDir(w, q.ref, cookie, p.withAttr, p.entry)
	switch {
	case err != nil:
		return err
	case p.entries == 0 && p.busy:
		return ErrBusy
	case p.entries == 0 && !p.eof:
		return nfs3.ErrTooSmall
	}
	return nil
}

// entry encodes one entry, or returns false if the entry does not fit. dircount is a hint about the
// client's cache, so the first entry may exceed it.
func (p *page) entry(de *Dirent) bool {
	size := nfs3.EntrySize(len(de.Name))
	if !p.withAttr {
		if !p.take(size) {
			return false
		}
		nfs3.AppendEntry(p.q.call.Res, de.Fileid, de.Name, de.Cookie)
		return true
	}
	if p.dirRoom < size && p.entries > 0 {
		return false
	}
	p.dirRoom -= size
	var attr nfs3.PostOpAttr
	var fh nfs3.PostOpFH
	if de.HasAttr && !p.q.mayCross(string(de.Name)) {
		attr, fh = postOp(&de.Attr), p.q.srv.postOpFH(p.q.x, &de.Ref)
	}
	if !p.take(nfs3.EntryPlusSize(len(de.Name), &attr, &fh)) {
		return false
	}
	nfs3.AppendEntryPlus(p.q.call.Res, de.Fileid, de.Name, de.Cookie, &attr, &fh)
	return true
}

// take counts the size bytes of an entry, and reports whether they fit.
func (p *page) take(size int) bool {
	if size > p.room || !p.grow(size) {
		return false
	}
	p.room -= size
	p.entries++
	return true
}

// grow makes room in the reply for an entry of size bytes and for some following entries. A large
// listing counts in the server's memory budget, and ends when the budget is spent.
func (p *page) grow(size int) bool {
	size += nfs3.ListSize(true) // a little more than EndEntries writes
	b := p.q.call.Res.Bytes()
	if cap(b)-len(b) >= size || p.q.call.Room(max(size, min(p.room, minListing))) {
		return true
	}
	p.busy = true
	return false
}
