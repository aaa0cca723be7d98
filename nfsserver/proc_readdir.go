// READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// preferredDir is the count that clients are asked to use (dtpref).
const preferredDir = 64 << 10

// minListing is the least that a listing grows by.
const minListing = 16 << 10

// A listing is a directory result while it is written.
type listing struct {
	s        *Server
	c        *transport.Call
	o        *object
	res      *xdr.Encoder
	room     int // octets left of count or maxcount
	dirRoom  int // octets left of dircount; <0: the count does not matter
	entries  int
	busy     bool // the server's memory budget is spent
	withAttr bool // READDIRPLUS
}

func (s *Server) readdir(c *transport.Call) error {
	var a nfs3.ReaddirArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	l := listing{s: s, c: c, res: c.Res, dirRoom: -1}
	l.run(c, &a.Dir, a.Cookie, a.Verf, a.Count)
	return nil
}

func (s *Server) readdirplus(c *transport.Call) error {
	var a nfs3.ReaddirplusArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	l := listing{s: s, c: c, res: c.Res, dirRoom: int(min(a.Dircount, MaxIO)), withAttr: true}
	l.run(c, &a.Dir, a.Cookie, a.Verf, a.Maxcount)
	return nil
}

// run writes the whole result.
func (l *listing) run(c *transport.Call, fh *nfs3.FH, cookie uint64, verf nfs3.Verf, count uint32) {
	start := l.res.Len()
	var attr nfs3.PostOpAttr
	o, err := l.s.open(fh)
	if err == nil {
		l.o = &o
		w := l.s.who(c)
		err = l.list(&w, cookie, verf, int(min(count, MaxIO)), &attr)
	}
	if err != nil {
		l.res.Truncate(start)
		res := nfs3.ReaddirRes{Status: status(err), DirAttr: attr}
		res.EncodeXDR(l.res)
	}
}

// list checks and writes entries as long as there is room.
func (l *listing) list(w *Cred, cookie uint64, verf nfs3.Verf, count int, attr *nfs3.PostOpAttr) error {
	at, err := l.o.getattr()
	if err != nil {
		return err
	}
	*attr = postOp(&at)
	switch {
	case at.Type != TypeDir:
		return nfs3.ErrNotDir
	case cookie != 0 && verf != l.o.x.verf:
		return nfs3.ErrBadCookie
	}
	l.room = count - nfs3.ListSize(true)
	if l.room < 0 {
		return nfs3.ErrTooSmall
	}
	nfs3.BeginEntries(l.res, attr, l.o.x.verf)
	eof, err := l.o.x.fs.ReadDir(*w, l.o.ref, cookie, l.withAttr, l.entry)
	if err != nil {
		return err
	}
	switch {
	case l.entries == 0 && l.busy:
		return ErrBusy
	case l.entries == 0 && !eof:
		return nfs3.ErrTooSmall
	}
	nfs3.EndEntries(l.res, eof)
	return nil
}

// entry writes one entry, or says that there is no room for it. dircount is a
// hint on how much the client's cache takes in: it never keeps out the first.
func (l *listing) entry(de *Dirent) bool {
	var attr nfs3.PostOpAttr
	var fh nfs3.PostOpFH
	size := nfs3.EntrySize(len(de.Name))
	if l.withAttr {
		if l.dirRoom < size && l.entries > 0 {
			return false
		}
		l.dirRoom -= size
		if de.HasAttr {
			attr, fh = postOp(&de.Attr), l.s.postOpFH(l.o.x, &de.Ref)
		}
		size = nfs3.EntryPlusSize(len(de.Name), &attr, &fh)
	}
	if size > l.room || !l.grow(size) {
		return false
	}
	l.room -= size
	l.entries++
	l.res.Bool(true)
	l.res.Uint64(de.Fileid)
	l.res.Opaque(de.Name)
	l.res.Uint64(de.Cookie)
	if l.withAttr {
		attr.EncodeXDR(l.res)
		fh.EncodeXDR(l.res)
	}
	return true
}

// grow sees to space for an entry of size octets, and for much of what may
// follow, where the reply's own space does not do: a large listing counts in the
// server's memory budget. When that is spent the page ends here.
func (l *listing) grow(size int) bool {
	size += nfs3.ListSize(true) // what EndEntries writes, and more
	b := l.res.Bytes()
	if cap(b)-len(b) >= size || l.c.Room(max(size, min(l.room, minListing))) {
		return true
	}
	l.busy = true
	return false
}
