// Callers' permissions: modes, owners, groups.

package nfsserver_test

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const (
	rAll = nfs3.AccessRead
	wAll = nfs3.AccessModify | nfs3.AccessExtend
	xDir = nfs3.AccessLookup
	wDir = wAll | nfs3.AccessDelete
	xReg = nfs3.AccessExecute
)

func TestAccess(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		c.want("SETATTR", c.setattr(c.root, nfs3.Sattr{SetMode: true, Mode: 0o755}).Status, nfs3.OK)
		f, d := c.file(c.root, "f", 0), c.dir(c.root, "d", 0)
		clients := map[string]*client{
			"root":  c,
			"owner": h.dial(transport.Cred{Flavor: 1, UID: 1000, GID: 1}),
			"group": h.dial(transport.Cred{Flavor: 1, UID: 1, GID: 2000}),
			"extra": h.dial(transport.Cred{Flavor: 1, UID: 1, GID: 1, GIDs: []uint32{5, 2000, 7}}),
			"other": h.dial(transport.Cred{Flavor: 1, UID: 1, GID: 1, GIDs: []uint32{1000}}),
			"none":  h.dial(transport.Cred{}),
		}
		for _, row := range []struct {
			mode        uint32
			who         string
			onFile, dir uint32
		}{
			{0, "root", rAll | wAll, rAll | wDir | xDir}, {0o100, "root", rAll | wAll | xReg, rAll | wDir | xDir},
			{0o700, "owner", rAll | wAll | xReg, rAll | wDir | xDir}, {0o400, "owner", rAll, rAll}, {0o200, "owner", wAll, wDir}, {0o100, "owner", xReg, xDir},
			{0o077, "owner", 0, 0}, {0o070, "group", rAll | wAll | xReg, rAll | wDir | xDir}, {0o707, "group", 0, 0}, {0o040, "extra", rAll, rAll},
			{0o050, "extra", rAll | xReg, rAll | xDir}, {0o007, "other", rAll | wAll | xReg, rAll | wDir | xDir}, {0o770, "other", 0, 0},
			{0o004, "none", rAll, rAll}, {0o770, "none", 0, 0}, {0o001, "none", xReg, xDir},
		} {
			for fh, want := range map[nfs3.FH]uint32{f: row.onFile, d: row.dir} {
				s := nfs3.Sattr{SetMode: true, Mode: row.mode, SetUID: true, UID: 1000, SetGID: true, GID: 2000}
				c.want("SETATTR", c.setattr(fh, s).Status, nfs3.OK)
				if got := clients[row.who].access(fh, nfs3.AccessAll); got != want {
					t.Errorf("mode %04o, %s: ACCESS %#x, want %#x", row.mode, row.who, got, want)
				}
				if got := clients[row.who].access(fh, nfs3.AccessRead); got != want&nfs3.AccessRead {
					t.Errorf("mode %04o, %s: ACCESS of read alone %#x", row.mode, row.who, got)
				}
			}
		}
	})
}

func TestPermissions(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		c.want("SETATTR", c.setattr(c.root, nfs3.Sattr{SetMode: true, Mode: 0o755}).Status, nfs3.OK)
		u := h.dial(user).mount("/x")
		u.want("CREATE in a directory of root", u.create(c.root, "f", nfs3.Guarded, nfs3.Sattr{}, nfs3.Verf{}).Status, nfs3.ErrAcces)
		u.want("MKDIR", u.mkdir(c.root, "x", 0o755).Status, nfs3.ErrAcces)
		home := c.dir(c.root, "home", 0o700)
		c.want("chown", c.setattr(home, nfs3.Sattr{SetUID: true, UID: 1000, SetGID: true, GID: 1000}).Status, nfs3.OK)
		f := u.file(home, "f", 0o400)
		a := u.attr(f)
		if got, want := [3]uint32{a.UID, a.GID, a.Mode}, [3]uint32{1000, 1000, 0o400}; got != want {
			t.Errorf("a file of the caller: uid, gid and mode %v, want %v", got, want)
		}
		u.want("WRITE by the owner, whatever the mode", u.write(f, 0, "x", nfs3.Unstable).Status, nfs3.OK)
		r, _ := u.read(f, 0, 1)
		u.want("READ", r.Status, nfs3.OK)
		other := h.dial(transport.Cred{Flavor: 1, UID: 2, GID: 2})
		r, _ = other.read(f, 0, 1)
		other.want("READ by another", r.Status, nfs3.ErrAcces)
		other.want("WRITE by another", other.write(f, 0, "x", nfs3.Unstable).Status, nfs3.ErrAcces)
		other.want("LOOKUP by another", other.lookup(home, "f").Status, nfs3.ErrAcces)
		other.want("REMOVE by another", other.remove(home, "f").Status, nfs3.ErrAcces)
		other.want("chmod by another", other.setattr(f, nfs3.Sattr{SetMode: true, Mode: 0o777}).Status, nfs3.ErrPerm)
		other.want("truncate by another", other.setattr(f, nfs3.Sattr{SetSize: true}).Status, nfs3.ErrAcces)
		other.want("touch by another", other.setattr(f, nfs3.Sattr{MtimeHow: nfs3.SetToServerTime}).Status, nfs3.ErrAcces)
		other.want("utimes by another", other.setattr(f, nfs3.Sattr{MtimeHow: nfs3.SetToClientTime}).Status, nfs3.ErrPerm)
		other.want("MNT below", nfs3.Status(mnt(other, "/x/home/f").Status), nfs3.ErrAcces)
		u.want("giving it away", u.setattr(f, nfs3.Sattr{SetUID: true, UID: 2}).Status, nfs3.ErrPerm)
		u.want("to a strange group", u.setattr(f, nfs3.Sattr{SetGID: true, GID: 2}).Status, nfs3.ErrPerm)
		u.want("to a group of one's own", u.setattr(f, nfs3.Sattr{SetGID: true, GID: 200}).Status, nfs3.OK)
		u.want("chown to oneself", u.setattr(f, nfs3.Sattr{SetUID: true, UID: 1000}).Status, nfs3.OK)
		u.want("device by a user", u.mknod(home, "n", nfs3.TypeChr, nfs3.Specdata{Major: 1, Minor: 3}).Status, nfs3.ErrPerm)
	})
}

func TestStickyAndSetID(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		u, v := h.dial(user), h.dial(transport.Cred{Flavor: 1, UID: 2, GID: 2})
		tmp := c.dir(c.root, "tmp", 0o1777)
		f := u.file(tmp, "f", 0o666)
		v.want("REMOVE in a sticky directory", v.remove(tmp, "f").Status, nfs3.ErrPerm)
		v.want("RENAME in a sticky directory", v.rename(tmp, "f", tmp, "g").Status, nfs3.ErrPerm)
		v.file(tmp, "own", 0o666)
		v.want("RENAME over another's", v.rename(tmp, "own", tmp, "f").Status, nfs3.ErrPerm)
		v.want("REMOVE of one's own", v.remove(tmp, "own").Status, nfs3.OK)
		u.want("set-user-id", u.setattr(f, nfs3.Sattr{SetMode: true, Mode: 0o6777}).Status, nfs3.OK)
		v.want("WRITE", v.write(f, 0, "x", nfs3.FileSync).Status, nfs3.OK)
		if a := u.attr(f); a.Mode != 0o777 {
			t.Errorf("mode %04o of a program that another wrote to", a.Mode)
		}
		u.want("RENAME by the owner", u.rename(tmp, "f", tmp, "g").Status, nfs3.OK)

		shared := c.dir(c.root, "shared", 0o2777)
		c.want("chgrp", c.setattr(shared, nfs3.Sattr{SetGID: true, GID: 300}).Status, nfs3.OK)
		c.want("chmod", c.setattr(shared, nfs3.Sattr{SetMode: true, Mode: 0o2777}).Status, nfs3.OK)
		if a := u.attr(u.file(shared, "f", 0o2755)); a.GID != 300 || a.Mode != 0o755 {
			t.Errorf("file in a set-group-id directory: group %d, mode %04o", a.GID, a.Mode)
		}
		if a := u.attr(u.dir(shared, "d", 0o755)); a.GID != 300 || a.Mode != 0o2755 {
			t.Errorf("directory in a set-group-id directory: group %d, mode %04o", a.GID, a.Mode)
		}
	})
}
