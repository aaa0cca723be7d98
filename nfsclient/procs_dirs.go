// READDIR and READDIRPLUS, page by page, as methods on handles.

package nfsclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A DirPage is the position after a page of a listing, with the page's results. The zero value is
// the start of the directory. Readdir and Readdirplus return the position of the next page.
type DirPage struct {
	Cookie uint64          // cookie of the last entry seen; 0: none
	Verf   nfs3.Verf       // the server's verifier for this listing's cookies
	Attr   nfs3.PostOpAttr // the directory's attributes
	EOF    bool            // the directory ends with this page
}

// Readdir reads the page after at by one READDIR with at most count bytes of results (RFC 1813
// §3.3.16). count bounds the reply's memory. It passes each entry to f; the entry's Name is valid
// only during that call. "." and ".." come as sent, and names are not validated. After an error
// ignore the entries passed to f.
func (c *Client) Readdir(ctx context.Context, dir nfs3.FH, at DirPage, count uint32, f func(*nfs3.Entry)) (DirPage, error) {
	args := nfs3.ReaddirArgs{Dir: dir, Cookie: at.Cookie, Verf: at.Verf, Count: count}
	next := DirPage{Cookie: at.Cookie}
	res := nfs3.ReaddirRes{Each: func(e *nfs3.Entry) {
		next.Cookie = e.Cookie
		f(e)
	}}
	extra := nfs3.Bindings[nfs3.ProcReaddir].Extra(count)
	if err := c.call(ctx, nfs3.ProcReaddir, &args, &res, &res.Status, nil, extra); err != nil {
		return DirPage{}, err
	}
	next.Verf, next.Attr, next.EOF = res.Verf, res.DirAttr, res.EOF
	return next, nil
}

// Readdirplus is Readdir by READDIRPLUS, which also returns available attributes and handles (RFC
// 1813 §3.3.17). dircount bounds names and cookies, maxcount all results, in bytes. A server
// without READDIRPLUS returns ErrNotSupp.
func (c *Client) Readdirplus(ctx context.Context, dir nfs3.FH, at DirPage, dircount, maxcount uint32, f func(*nfs3.EntryPlus)) (DirPage, error) {
	args := nfs3.ReaddirplusArgs{Dir: dir, Cookie: at.Cookie, Verf: at.Verf, Dircount: dircount, Maxcount: maxcount}
	next := DirPage{Cookie: at.Cookie}
	res := nfs3.ReaddirplusRes{Each: func(e *nfs3.EntryPlus) {
		next.Cookie = e.Cookie
		f(e)
	}}
	extra := nfs3.Bindings[nfs3.ProcReaddirplus].Extra(maxcount)
	if err := c.call(ctx, nfs3.ProcReaddirplus, &args, &res, &res.Status, nil, extra); err != nil {
		return DirPage{}, err
	}
	next.Verf, next.Attr, next.EOF = res.Verf, res.DirAttr, res.EOF
	return next, nil
}
