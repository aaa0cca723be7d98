// NFSACL: clients read and set the file system's own lists, as setfacl and getfacl show.

package nfsserver_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"golang.org/x/sys/unix"
)

// An entry is a short form of nfsacl3.Entry.
type entry struct{ tag, id, perm uint32 }

type entries []entry

func (l entries) wire() (list []nfsacl3.Entry) {
	for _, e := range l {
		list = append(list, nfsacl3.Entry{Tag: e.tag, ID: e.id, Perm: e.perm})
	}
	return list
}

const (
	uo, us, go_, gr, ma, ot = nfsacl3.TagUserObj, nfsacl3.TagUser, nfsacl3.TagGroupObj, nfsacl3.TagGroup, nfsacl3.TagMask, nfsacl3.TagOther

	bothACLs = nfsacl3.MaskAccess | nfsacl3.MaskDefault
)

func (c *client) acl(proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	p := transport.Proc{Prog: nfsacl3.Program, Vers: nfsacl3.Version, Proc: proc, Name: "ACL", MaxReply: nfsacl3.MaxReply}
	return c.rpc.Call(context.Background(), &p, args, res, nil, 0)
}

func (c *client) getACL(fh nfs3.FH, mask uint32) (res nfsacl3.GetACLRes) {
	c.Helper()
	if err := c.acl(nfsacl3.ProcGetACL, &nfsacl3.GetACLArgs{FH: fh, Mask: mask}, &res); err != nil {
		c.Fatalf("GETACL: %v", err)
	}
	return res
}

func (c *client) setACL(fh nfs3.FH, lists nfsacl3.ACLs) (res nfsacl3.SetACLRes) {
	c.Helper()
	if err := c.acl(nfsacl3.ProcSetACL, &nfsacl3.SetACLArgs{FH: fh, ACLs: lists}, &res); err != nil {
		c.Fatalf("SETACL: %v", err)
	}
	return res
}

// setAccess sets the access ACL, fails the test if that fails, and returns the mode in the reply.
func (c *client) setAccess(fh nfs3.FH, list ...nfsacl3.Entry) uint32 {
	c.Helper()
	res := c.setACL(fh, nfsacl3.ACLs{Mask: nfsacl3.MaskAccess, Access: list})
	c.want("SETACL", res.Status, nfs3.OK)
	return res.Attr.Attr.Mode
}

// transports runs f with clients of all transports.
func (h *host) transports(f func(t *testing.T, dial func(transport.Cred) *client)) {
	for name, dial := range map[string]func(transport.Cred) *client{"tcp": h.dial, "rdma": h.dialRDMA} {
		h.Run(name, func(t *testing.T) {
			f(t, func(cred transport.Cred) *client {
				c := dial(cred).mount("/x")
				c.T = t
				return c
			})
		})
	}
}

// wantFacl compares getfacl's output for a file, without the header.
func (v *volume) wantFacl(name string, want ...string) {
	v.Helper()
	if got := strings.Fields(v.acl(name)); !slices.Equal(got, want) {
		v.Errorf("getfacl %s: %q, want %q", name, got, want)
	}
}

// TestGetACL: the reply has setfacl's list with the owner and the group. For a file without a list
// it has a list made from the mode.
func TestGetACL(t *testing.T) {
	conformance.Proves(t, "R8267-019", "R8267-021")
	v := newVolume(t)
	file, plain, dir := v.file("file", 0o640, 1000, 3000), v.file("plain", 0o641, 1000, 3000), v.root.dir(v.root.root, "dir", 0o750)
	link := v.root.symlink(v.root.root, "link", "file").FH.FH
	run(t, "setfacl", "-m", "u:2000:r,u:1999:rw,g:7:x", filepath.Join(v.dir, "file"))
	run(t, "setfacl", "-d", "-m", "u:2000:rwx,g::r", filepath.Join(v.dir, "dir"))
	v.host.transports(func(t *testing.T, dial func(transport.Cred) *client) {
		// the modes do not permit this user to read
		c := dial(transport.Cred{Flavor: 1, UID: 1500, GID: 1500})
		for _, w := range []struct {
			name string
			fh   nfs3.FH
			mask uint32
			want nfsacl3.ACLs
		}{
			{"file", file, nfsacl3.MaskAll, nfsacl3.ACLs{AccessCount: 7, Access: entries{
				{uo, 1000, 6}, {us, 1999, 6}, {us, 2000, 4}, {go_, 3000, 4}, {gr, 7, 1}, {ma, 0, 7}, {ot, 0, 0}}.wire()}},
			{"plain", plain, bothACLs, nfsacl3.ACLs{AccessCount: 4, Access: entries{{uo, 1000, 6}, {go_, 3000, 4}, {ot, 0, 1}}.wire()}},
			{"link", link, bothACLs, nfsacl3.ACLs{AccessCount: 4, Access: entries{{uo, 0, 7}, {go_, 0, 7}, {ot, 0, 7}}.wire()}},
			{"dir", dir, nfsacl3.MaskDefault, nfsacl3.ACLs{DefaultCount: 5, Default: entries{
				{uo, 0, 7}, {us, 2000, 7}, {go_, 0, 4}, {ma, 0, 7}, {ot, 0, 0}}.wire()}},
			{"counts", dir, nfsacl3.MaskAccessCount | nfsacl3.MaskDefaultCount, nfsacl3.ACLs{AccessCount: 4, DefaultCount: 5}},
			{"nothing", dir, 0, nfsacl3.ACLs{}},
		} {
			res, is := c.getACL(w.fh, w.mask), c.attr(w.fh)
			got := &res.ACLs
			c.want(w.name, res.Status, nfs3.OK)
			if !res.Attr.Present || res.Attr.Attr.Fileid != is.Fileid {
				t.Errorf("%s: attributes %+v, want fileid %d", w.name, res.Attr, is.Fileid)
			}
			if counts, want := [3]uint32{got.Mask, got.AccessCount, got.DefaultCount}, [3]uint32{w.mask, w.want.AccessCount, w.want.DefaultCount}; counts != want {
				t.Errorf("%s: mask and counts %v, want %v", w.name, counts, want)
			}
			if !slices.Equal(got.Access, w.want.Access) {
				t.Errorf("%s: access ACL %+v, want %+v", w.name, got.Access, w.want.Access)
			}
			if !slices.Equal(got.Default, w.want.Default) {
				t.Errorf("%s: default ACL %+v, want %+v", w.name, got.Default, w.want.Default)
			}
		}
		c.want("GETACL with an unknown bit", c.getACL(file, 16).Status, nfs3.ErrInval)
		var none nfs3.FH
		c.want("GETACL of no handle", c.getACL(none, bothACLs).Status, nfs3.ErrBadHandle)
	})
}

// TestSetACL: getfacl shows the list that was set, mode and mask follow each other, and only owner
// and root may set it.
func TestSetACL(t *testing.T) {
	v := newVolume(t)
	v.host.transports(func(t *testing.T, dial func(transport.Cred) *client) {
		v := &volume{T: t, dir: v.dir, host: v.host, root: v.root}
		owner, other := dial(transport.Cred{Flavor: 1, UID: 1000, GID: 1000}), dial(transport.Cred{Flavor: 1, UID: 2000, GID: 2000})
		name := filepath.Base(t.Name())
		fh := v.file(name, 0o600, 1000, 1000)
		v.mayRead("another", other, fh, false)
		full := entries{{uo, 0, 6}, {us, 2000, 4}, {go_, 0, 0}, {gr, 7, 6}, {ma, 0, 6}, {ot, 0, 0}}.wire()
		slices.Reverse(full)
		if mode := owner.setAccess(fh, full...); mode != 0o660 {
			t.Errorf("mode %o after SETACL", mode)
		}
		v.wantFacl(name, "user::rw-", "user:2000:r--", "group::---", "group:7:rw-", "mask::rw-", "other::---")
		v.mayRead("who may by the ACL alone", other, fh, true)

		owner.want("chmod", owner.setattr(fh, nfs3.Sattr{SetMode: true, Mode: 0o600}).Status, nfs3.OK)
		res := owner.getACL(fh, nfsacl3.MaskAccess)
		if m := res.ACLs.Access[4]; m != (nfsacl3.Entry{Tag: ma, Perm: 0}) {
			t.Errorf("the mask after chmod 600: %+v", res.ACLs.Access)
		}
		v.mayRead("who is masked", other, fh, false)

		refused := other.setACL(fh, nfsacl3.ACLs{Mask: nfsacl3.MaskAccess, Access: full})
		other.want("SETACL of another", refused.Status, nfs3.ErrPerm)
		if !refused.Attr.Present {
			t.Error("no attributes beside the refusal")
		}
		// after a list that equals a mode, the file has no ACL
		if mode := owner.setAccess(fh, entries{{uo, 0, 6}, {go_, 0, 4}, {ot, 0, 0}}.wire()...); mode != 0o640 {
			t.Errorf("mode %o", mode)
		}
		v.wantFacl(name, "user::rw-", "group::r--", "other::---")
		if n, err := unix.Getxattr(filepath.Join(v.dir, name), "system.posix_acl_access", nil); err != unix.ENODATA {
			t.Errorf("the ACL is there still: %d, %v", n, err)
		}
		root := dial(root)
		root.setAccess(fh, full...)
		root.setAccess(fh) // removes the ACL, also a second time
		root.setAccess(fh)
		v.wantFacl(name, "user::rw-", "group::rw-", "other::---")
		dflt := nfsacl3.ACLs{Mask: bothACLs, Access: entries{{uo, 0, 6}, {go_, 0, 4}, {ot, 0, 0}}.wire(), Default: full}
		owner.want("a default ACL of a file", owner.setACL(fh, dflt).Status, nfs3.ErrAcces)
		v.wantFacl(name, "user::rw-", "group::rw-", "other::---") // nothing has changed
		dflt.Default = nil
		owner.want("none of a file", owner.setACL(fh, dflt).Status, nfs3.OK)
	})
}

// TestSetDefaultACL: new objects in a directory get its default ACL, whichever user has set it.
// Entries that exceed the mask stay as set.
func TestSetDefaultACL(t *testing.T) {
	v := newVolume(t)
	v.host.transports(func(t *testing.T, dial func(transport.Cred) *client) {
		v := &volume{T: t, dir: v.dir, host: v.host, root: v.root}
		c, name := dial(root), filepath.Base(t.Name())
		dir := c.dir(c.root, name, 0o755)
		dflt := entries{{uo, 0, 7}, {us, 2000, 7}, {go_, 0, 5}, {ma, 0, 7}, {ot, 0, 0}}.wire()
		c.want("SETACL", c.setACL(dir, nfsacl3.ACLs{Mask: bothACLs, Access: entries{{uo, 0, 7}, {us, 2000, 5}, {go_, 0, 5}, {ma, 0, 5}, {ot, 0, 1}}.wire(), Default: dflt}).Status, nfs3.OK)
		c.file(dir, "file", 0o666)
		ex := c.create(dir, "exclusive", nfs3.Exclusive, nfs3.Sattr{}, nfs3.Verf{1}).FH.FH
		c.want("mode of the exclusive one", c.setattr(ex, nfs3.Sattr{SetMode: true, Mode: 0o660}).Status, nfs3.OK)
		c.dir(dir, "sub", 0o770)
		for _, made := range []string{"file", "exclusive"} {
			v.wantFacl(name+"/"+made, "user::rw-", "user:2000:rwx", "#effective:rw-", "group::r-x", "#effective:r--", "mask::rw-", "other::---")
		}
		v.wantFacl(name+"/sub", "user::rwx", "user:2000:rwx", "group::r-x", "mask::rwx", "other::---",
			"default:user::rwx", "default:user:2000:rwx", "default:group::r-x", "default:mask::rwx", "default:other::---")
		u := dial(transport.Cred{Flavor: 1, UID: 2000, GID: 2000})
		u.want("WRITE of who may by the inherited ACL", u.write(u.lookup(dir, "file").FH, 0, "x", nfs3.Unstable).Status, nfs3.OK)

		// The default ACL is removed, and the access ACL stays.
		c.want("SETACL of no default", c.setACL(dir, nfsacl3.ACLs{Mask: nfsacl3.MaskDefault}).Status, nfs3.OK)
		v.wantFacl(name, "user::rwx", "user:2000:r-x", "group::r-x", "mask::r-x", "other::--x")
		c.file(dir, "later", 0o666)
		v.wantFacl(name+"/later", "user::rw-", "group::rw-", "other::rw-")
	})
}

// TestInvalidACLs: invalid lists give NFS3ERR_INVAL, or cannot be decoded, and change nothing.
func TestInvalidACLs(t *testing.T) {
	v := newVolume(t)
	fh := v.file("file", 0o640, 0, 0)
	v.chown(v.dir, 0o775, 0, 0)
	v.host.transports(func(t *testing.T, dial func(transport.Cred) *client) {
		c := dial(root)
		good := entries{{uo, 0, 7}, {go_, 0, 7}, {ot, 0, 7}}
		for what, list := range map[string]entries{
			"no owner":        {{go_, 0, 7}, {ot, 0, 7}},
			"two owners":      {{uo, 0, 7}, {uo, 1, 7}, {go_, 0, 7}, {ot, 0, 7}},
			"two masks":       {{uo, 0, 7}, {go_, 0, 7}, {ma, 0, 7}, {ma, 0, 6}, {ot, 0, 7}},
			"a user, no mask": {{uo, 0, 7}, {us, 5, 7}, {go_, 0, 7}, {ot, 0, 7}},
			"a mask alone":    {{ma, 0, 7}},
		} {
			c.want(what, c.setACL(fh, nfsacl3.ACLs{Mask: nfsacl3.MaskAccess, Access: list.wire()}).Status, nfs3.ErrInval)
			// a valid list in the same call is not set either
			c.want(what, c.setACL(c.root, nfsacl3.ACLs{Mask: bothACLs, Access: good.wire(), Default: list.wire()}).Status, nfs3.ErrInval)
		}
		for what, list := range map[string]entries{
			"permission 8":  {{uo, 0, 8}, good[1], good[2]},
			"the user -1":   {good[0], {us, 1<<32 - 1, 7}, good[1], {ma, 0, 7}, good[2]},
			"tag 3":         {{3, 0, 7}, good[1], good[2]},
			"1025 entries":  slices.Repeat(good, 342)[:1025],
			"9000 entries":  slices.Repeat(good, 3000),
			"permission -1": {good[0], good[1], {ot, 0, 1<<32 - 1}},
		} {
			var res nfsacl3.SetACLRes
			err := c.acl(nfsacl3.ProcSetACL, &nfsacl3.SetACLArgs{FH: fh, ACLs: nfsacl3.ACLs{Mask: nfsacl3.MaskAccess, Access: list.wire()}}, &res)
			if err == nil || !strings.Contains(err.Error(), "GARBAGE_ARGS") {
				t.Errorf("%s: %v, %v", what, res.Status, err)
			}
		}
		// Counts that an attacker claims cause no large allocation.
		err := c.acl(nfsacl3.ProcSetACL, hostile{fh, 1<<32 - 1}, &nfsacl3.SetACLRes{})
		if err == nil || !strings.Contains(err.Error(), "GARBAGE_ARGS") {
			t.Errorf("4 billion entries: %v", err)
		}
		c.want("GETACL after all", c.getACL(fh, nfsacl3.MaskAccess).Status, nfs3.OK)
	})
	v.wantFacl("file", "user::rw-", "group::r--", "other::---")
	v.wantFacl(".", "user::rwx", "group::rwx", "other::r-x")
}

// A hostile encodes a SETACL with counts larger than its lists.
type hostile struct {
	fh    nfs3.FH
	count uint32
}

func (h hostile) EncodeXDR(e *xdr.Encoder) {
	h.fh.EncodeXDR(e)
	e.Uint32(bothACLs)
	e.Uint32(h.count)
	e.Uint32(h.count)
}

// TestLargestACLs: the protocol's largest lists travel both ways, as long calls and replies over
// RDMA.
func TestLargestACLs(t *testing.T) {
	conformance.Proves(t, "R8267-022")
	needTools(t)
	dir := t.TempDir()
	run(t, "mount", "-t", "tmpfs", "none", dir) // tmpfs itself does not limit ACLs
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: diskAt(t, dir)}}})
	list := entries{{uo, 0, 7}}.wire()
	for id := range uint32(nfsacl3.MaxEntries - 4) {
		list = append(list, nfsacl3.Entry{Tag: us, ID: 3 * id, Perm: id & 7})
	}
	list = append(list, entries{{go_, 0, 5}, {ma, 0, 7}, {ot, 0, 0}}.wire()...)
	h.transports(func(t *testing.T, dial func(transport.Cred) *client) {
		c := dial(root)
		c.want("SETACL", c.setACL(c.root, nfsacl3.ACLs{Mask: bothACLs, Access: list, Default: list}).Status, nfs3.OK)
		if res := c.getACL(c.root, bothACLs); !slices.Equal(res.ACLs.Access, list) || !slices.Equal(res.ACLs.Default, list) {
			t.Errorf("%v, %d and %d entries", res.Status, len(res.ACLs.Access), len(res.ACLs.Default))
		}
		c.want("SETACL of none", c.setACL(c.root, nfsacl3.ACLs{Mask: bothACLs}).Status, nfs3.OK)
	})
}

// TestACLRights: read-only exports refuse to set ACLs, and squashed callers have the rights of
// their effective user. With no_acl, and on file systems without ACLs, there are no lists.
func TestACLRights(t *testing.T) {
	needTools(t, "setfacl")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o640); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	rules := func(options string) *exports.Export {
		f, err := exports.Parse("test", []byte("/x *("+options+")\n"))
		if err != nil {
			t.Fatalf("exports.Parse: %v", err)
		}
		return f.Exports[0]
	}
	list := entries{{uo, 0, 6}, {go_, 0, 4}, {ot, 0, 4}}.wire()
	for _, w := range []struct {
		name     string
		export   nfsserver.Export
		get, set nfs3.Status
	}{
		{"ro", nfsserver.Export{FS: diskAt(t, dir), Rules: rules("ro,insecure,no_root_squash")}, nfs3.OK, nfs3.ErrROFS},
		{"squashed", nfsserver.Export{FS: diskAt(t, dir), Rules: rules("rw,insecure,acl")}, nfs3.OK, nfs3.ErrPerm},
		{"no_acl", nfsserver.Export{FS: diskAt(t, dir), Rules: rules("rw,insecure,no_root_squash,no_acl")}, nfs3.ErrNotSupp, nfs3.ErrNotSupp},
		{"memory", nfsserver.Export{FS: memory(t)}, nfs3.ErrNotSupp, nfs3.ErrNotSupp},
		{"rw", nfsserver.Export{FS: diskAt(t, dir), Rules: rules("rw,insecure,no_root_squash")}, nfs3.OK, nfs3.OK},
	} {
		w.export.Name = "/x"
		h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{w.export}})
		c := h.dial(root).mount("/x")
		fh := c.root
		if w.name != "memory" {
			fh = c.lookup(c.root, "file").FH
		}
		got := c.getACL(fh, bothACLs)
		c.want(w.name+": GETACL", got.Status, w.get)
		c.want(w.name+": SETACL", c.setACL(fh, nfsacl3.ACLs{Mask: nfsacl3.MaskAccess, Access: list}).Status, w.set)
		if !got.Attr.Present {
			t.Errorf("%s: no attributes", w.name)
		}
		h.stop()
	}
}

// TestFileSystemWithoutACLs: as on Linux's server, modes appear as ACLs, and no ACL can be set.
func TestFileSystemWithoutACLs(t *testing.T) {
	needTools(t)
	dir := t.TempDir()
	run(t, "mount", "-t", "ramfs", "none", dir)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: diskAt(t, dir)}}})
	c := h.dial(root).mount("/x")
	fh := c.file(c.root, "file", 0o641)
	if res := c.getACL(fh, bothACLs); !slices.Equal(res.ACLs.Access, entries{{uo, 0, 6}, {go_, 0, 4}, {ot, 0, 1}}.wire()) {
		t.Errorf("%+v", res)
	}
	c.want("SETACL", c.setACL(fh, nfsacl3.ACLs{Mask: nfsacl3.MaskAccess, Access: entries{{uo, 0, 6}, {go_, 0, 4}, {ot, 0, 4}}.wire()}).Status, nfs3.ErrNotSupp)
	c.want("SETACL of none", c.setACL(fh, nfsacl3.ACLs{Mask: nfsacl3.MaskAccess}).Status, nfs3.ErrNotSupp)
}
