// Procedures that remove, rename and link names, over TCP (RFC 1813 §3.3.12 to §3.3.15).

package nfsserver_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func TestRemoveProcs(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		d := c.dir(c.root, "d", 0o755)
		f := c.file(d, "f", 0o644)
		c.want("REMOVE of a directory", c.remove(c.root, "d").Status, nfs3.ErrIsDir)
		c.want("RMDIR of a full directory", c.rmdir(c.root, "d").Status, nfs3.ErrNotEmpty)
		c.want("RMDIR of a file", c.rmdir(d, "f").Status, nfs3.ErrNotDir)
		c.want("RMDIR .", c.rmdir(d, ".").Status, nfs3.ErrInval)
		c.want("RMDIR ..", c.rmdir(d, "..").Status, nfs3.ErrExist)
		c.want("REMOVE ..", c.remove(d, "..").Status, nfs3.ErrIsDir)
		c.want("REMOVE of nothing", c.remove(d, "g").Status, nfs3.ErrNoEnt)
		c.want("REMOVE a/b", c.remove(c.root, "d/f").Status, nfs3.ErrAcces)
		c.want("REMOVE in a file", c.remove(f, "x").Status, nfs3.ErrNotDir)
		before := c.attr(d)
		res := c.remove(d, "f")
		c.want("REMOVE", res.Status, nfs3.OK)
		if is := c.attr(d); res.Wcc.Before.Attr != before.Wcc() || res.Wcc.After.Attr != is {
			t.Errorf("REMOVE: wcc %+v, want %+v and %+v", res.Wcc, before.Wcc(), is)
		}
		c.want("GETATTR of what is gone", c.getattr(f).Status, nfs3.ErrStale)
		r, _ := c.read(f, 0, 10)
		c.want("READ of what is gone", r.Status, nfs3.ErrStale)
		c.want("RMDIR", c.rmdir(c.root, "d").Status, nfs3.OK)
		c.want("GETATTR of what is gone", c.getattr(d).Status, nfs3.ErrStale)
		c.want("MKDIR in what is gone", c.mkdir(d, "x", 0o755).Status, nfs3.ErrStale)
	})
}

func TestRenameLinkProcs(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		a, b := c.dir(c.root, "a", 0o755), c.dir(c.root, "b", 0o755)
		f := c.file(a, "f", 0o644)
		wasA, wasB := c.attr(a), c.attr(b)
		res := c.rename(a, "f", b, "g")
		c.want("RENAME", res.Status, nfs3.OK)
		if isA := c.attr(a); res.FromWcc.Before.Attr != wasA.Wcc() || res.FromWcc.After.Attr != isA {
			t.Errorf("RENAME: wcc of the source %+v, want %+v and %+v", res.FromWcc, wasA.Wcc(), isA)
		}
		if isB := c.attr(b); res.ToWcc.Before.Attr != wasB.Wcc() || res.ToWcc.After.Attr != isB {
			t.Errorf("RENAME: wcc of the target %+v, want %+v and %+v", res.ToWcc, wasB.Wcc(), isB)
		}
		if got := c.lookup(b, "g"); got.FH != f {
			t.Error("RENAME: another handle")
		}
		wasB = c.attr(b)
		res = c.rename(b, "g", b, "h")
		c.want("RENAME in a directory", res.Status, nfs3.OK)
		is := c.attr(b)
		for _, wcc := range []nfs3.WccData{res.FromWcc, res.ToWcc} {
			if wcc.Before.Attr != wasB.Wcc() || wcc.After.Attr != is {
				t.Errorf("RENAME in a directory: wcc %+v, want %+v and %+v", wcc, wasB.Wcc(), is)
			}
		}
		c.want("RENAME to h/g", c.rename(b, "h", b, "h/g").Status, nfs3.ErrAcces)
		c.want("RENAME back", c.rename(b, "h", b, "g").Status, nfs3.OK)
		c.want("RENAME of nothing", c.rename(a, "f", b, "h").Status, nfs3.ErrNoEnt)
		c.want("RENAME .", c.rename(b, ".", a, "x").Status, nfs3.ErrInval)
		c.want("RENAME to ..", c.rename(b, "g", a, "..").Status, nfs3.ErrInval)
		c.want("RENAME into itself", c.rename(c.root, "a", a, "x").Status, nfs3.ErrInval)
		c.want("RENAME over a directory", c.rename(b, "g", c.root, "a").Status, nfs3.ErrIsDir)
		c.want("RENAME over a file", c.rename(c.root, "a", b, "g").Status, nfs3.ErrNotDir)
		c.want("RENAME over a full directory", c.rename(c.root, "a", c.root, "b").Status, nfs3.ErrNotEmpty)
		l := c.link(f, a, "h")
		c.want("LINK", l.Status, nfs3.OK)
		if l.Attr.Attr.Nlink != 2 {
			t.Errorf("LINK: %d links, want 2", l.Attr.Attr.Nlink)
		}
		if isA := c.attr(a); l.DirWcc.After.Attr != isA || !l.DirWcc.Before.Present {
			t.Errorf("LINK: wcc %+v, want both parts, after %+v", l.DirWcc, isA)
		}
		c.want("RENAME of two names", c.rename(b, "g", a, "h").Status, nfs3.OK)
		c.want("LOOKUP", c.lookup(b, "g").Status, nfs3.OK)
		c.want("LINK again", c.link(f, a, "h").Status, nfs3.ErrExist)
		c.want("LINK of a directory", c.link(a, b, "x").Status, nfs3.ErrInval)
		c.want("LINK in a file", c.link(f, f, "x").Status, nfs3.ErrNotDir)
	})
}
