// The MOUNT program over TCP and RDMA, and how long handles are valid.

package nfsserver_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func mnt(c *client, path string) (res mount3.MntRes) {
	c.Helper()
	c.mountCall(mount3.ProcMnt, &mount3.PathArgs{Path: path}, &res)
	return res
}

func dump(c *client) (dirs []string) {
	var res mount3.DumpRes
	c.mountCall(mount3.ProcDump, void{}, &res)
	for _, m := range res.Mounts {
		dirs = append(dirs, m.Host+" "+m.Dir)
	}
	return dirs
}

func TestMount(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: memory(t)}, {Name: "/x/y", FS: memory(t)}, {Name: "/", FS: memory(t)}}})
	for name, c := range map[string]*client{"tcp": h.dial(root), "rdma": h.dialRDMA(root)} {
		t.Run(name, func(t *testing.T) {
			c.T = t
			c.mountCall(mount3.ProcNull, void{}, void{})
			x := c.mount("/x").root
			if d := c.lookup(x, "dir"); d.Status != nfs3.OK {
				c.dir(c.dir(x, "dir", 0o755), "sub", 0o755)
				c.file(x, "file", 0o644)
				c.symlink(x, "link", "dir")
			}
			for path, want := range map[string]mount3.Status{
				"/x": mount3.OK, "/x/": mount3.OK, "/x/./dir//": mount3.OK, "/x/dir/sub": mount3.OK, "/x/dir/../dir": mount3.OK, "/x/y": mount3.OK, "/": mount3.OK,
				"/x/file": mount3.ErrNotDir, "/x/file/x": mount3.ErrNotDir, "/x/link": mount3.OK, "/x/link/sub": mount3.OK,
				"/x/nothing": mount3.ErrNoEnt, "/xx": mount3.ErrNoEnt, "": mount3.ErrNoEnt, "x": mount3.ErrNoEnt, "/../etc": mount3.ErrNoEnt,
				"/x/" + strings.Repeat("n", 300): mount3.ErrNameTooLong, "/x/a\x00b": mount3.ErrAcces,
			} {
				res := mnt(c, path)
				if res.Status != want {
					t.Errorf("MNT %q: %v, want %v", path, res.Status, want)
				}
				if want == mount3.OK && !slices.Equal(res.Flavors, []uint32{1, 0}) {
					t.Errorf("MNT %q: flavors %v", path, res.Flavors)
				}
			}
			sub := c.mount("/x/dir/sub").root
			if got := c.lookup(c.lookup(x, "dir").FH, "sub").FH; got != sub {
				t.Error("MNT below an export: another handle than LOOKUP")
			}
			if y := c.mount("/x/y").root; y == x {
				t.Error("MNT: the longest name must win")
			}
			var e mount3.ExportRes
			c.mountCall(mount3.ProcExport, void{}, &e)
			if len(e.Exports) != 3 {
				t.Fatalf("EXPORT: %+v, want 3 exports", e)
			}
			if x := e.Exports[0]; x.Dir != "/x" || len(x.Groups) != 0 {
				t.Errorf("EXPORT: %+v first, want /x without groups", x)
			}
			if d := dump(c); !slices.Contains(d, "127.0.0.1 /x/dir/sub") {
				t.Errorf("DUMP: %v", d)
			}
			c.mountCall(mount3.ProcUmnt, &mount3.PathArgs{Path: "/x/dir/sub"}, void{})
			if d := dump(c); slices.Contains(d, "127.0.0.1 /x/dir/sub") || len(d) == 0 {
				t.Errorf("DUMP after UMNT: %v", d)
			}
			c.mountCall(mount3.ProcUmntall, void{}, void{})
			if d := dump(c); len(d) != 0 {
				t.Errorf("DUMP after UMNTALL: %v", d)
			}
		})
	}
}

// TestOtherPrograms: calls of programs that are not served get the right error, and the connection
// stays open.
func TestOtherPrograms(t *testing.T) {
	conformance.Proves(t, "R8166-194", "R8267-019", "R8267-021")
	h := serve(t, nfsserver.Options{Squash: believeAll, NoACL: true, Exports: []nfsserver.Export{{Name: "/x", FS: memory(t)}}})
	for _, c := range []*client{h.dial(root), h.dialRDMA(root)} {
		for want, p := range map[error]transport.Proc{
			// the program that is not served is NFSACL, which Linux calls
			transport.ErrProgUnavail: {Prog: 100227, Vers: 3, MaxReply: 100},
			transport.ErrProcUnavail: {Prog: nfs3.Program, Vers: 3, Proc: 22, MaxReply: 100},
		} {
			if err := c.rpc.Call(context.Background(), &p, void{}, void{}, nil, 0); err == nil || !strings.Contains(err.Error(), strings.Fields(want.Error())[1]) {
				t.Errorf("program %d, procedure %d: %v, want %v", p.Prog, p.Proc, err, want)
			}
		}
		c.mount("/x")
	}
}

// TestMountThroughLinks: MNT follows symbolic links as a local process does: within an export, and
// into another export under its rules, but nowhere else.
func TestMountThroughLinks(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/srv/x *(rw,insecure)\n/srv/y 127.0.0.1(ro,insecure)\n/srv/z 192.0.2.1(rw,insecure)\n")})
	c := h.dialFrom("127.0.0.1", user)["tcp"].mount("/srv/x")
	deep := c.dir(c.dir(c.root, "d", 0o777), "deep", 0o777)
	c.file(c.root, "file", 0o666)
	c.want("SYMLINK", c.symlink(c.lookup(c.root, "d").FH, "inner", "deep").Status, nfs3.OK)
	long := "/srv/x/" + strings.Repeat("a/", 500)
	for name, target := range map[string]string{
		"near": "d", "abs": "/srv/x/d/deep", "twice": "near/deep", "up": "../x/d", "other": "/srv/y", "beside": "../y", "closed": "/srv/z",
		"out": "/etc", "above": "..", "loop": "loop", "none": "nothere", "tofile": "file", "long": long,
	} {
		c.want("SYMLINK", c.symlink(c.root, name, target).Status, nfs3.OK)
	}
	y := h.srv.RootHandle("/srv/y")
	for _, one := range []struct {
		path   string
		status mount3.Status
		fh     nfs3.FH
	}{
		{"/srv/x/near/deep", mount3.OK, deep}, {"/srv/x/abs", mount3.OK, deep}, {"/srv/x/twice", mount3.OK, deep}, {"/srv/x/d/inner", mount3.OK, deep}, {"/srv/x/up/deep/", mount3.OK, deep},
		{"/srv/x/other", mount3.OK, y}, {"/srv/x/beside", mount3.OK, y}, {"/srv/x/closed", mount3.ErrAcces, nfs3.FH{}},
		{"/srv/x/out", mount3.ErrNoEnt, nfs3.FH{}}, {"/srv/x/above", mount3.ErrNoEnt, nfs3.FH{}}, {"/srv/x/loop", mount3.ErrInval, nfs3.FH{}},
		{"/srv/x/none", mount3.ErrNoEnt, nfs3.FH{}}, {"/srv/x/tofile", mount3.ErrNotDir, nfs3.FH{}}, {"/srv/x/tofile/d", mount3.ErrNotDir, nfs3.FH{}},
		{"/srv/x/long/d/d/d/d/d/d/d/d/d", mount3.ErrNameTooLong, nfs3.FH{}},
	} {
		res := c.mnt(one.path)
		if res.Status != one.status {
			t.Errorf("MNT %s: %v, want %v", one.path, res.Status, one.status)
		}
		if want := one.fh.Bytes(); !bytes.Equal(res.Handle, want) {
			t.Errorf("MNT %s: handle %x, want %x", one.path, res.Handle, want)
		}
	}
	c.root = y
	c.want("MKDIR in the export that a link leads to", c.mkdir(y, "d", 0o755).Status, nfs3.ErrROFS)
	if st := h.dialFrom("127.0.0.2", user)["tcp"].mnt("/srv/x/other").Status; st != mount3.ErrAcces {
		t.Errorf("MNT through a link by a caller without access to the other export: %v, want %v", st, mount3.ErrAcces)
	}
}

// TestExportOfALink: an export whose name is a symbolic link can be mounted by the link's name and
// by the directory's own path. The path is not used if another export has it as its name, or if the
// export's name is not a path.
func TestExportOfALink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatalf("filepath.EvalSymlinks: %v", err)
	}
	link, sub := filepath.Join(dir, "link"), filepath.Join(dir, "real", "sub")
	if err := errors.Join(os.MkdirAll(sub, 0o755), os.Symlink("real", link)); err != nil {
		t.Fatalf("make the tree: %v", err)
	}
	real := filepath.Dir(sub)
	byLink := nfsserver.Export{Name: link, ByPath: true, FS: diskAt(t, link)}
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{byLink}})
	c := h.dial(root)
	if a, b := c.mount(link+"/sub").root, c.mount(sub).root; a != b {
		t.Errorf("handle by the link is %x, by the path %x, want the same", a.Bytes(), b.Bytes())
	}
	if st := c.mnt(dir).Status; st != mount3.ErrNoEnt {
		t.Errorf("MNT above: %v", st)
	}

	byLink.FS, byLink.ByPath = diskAt(t, link), false
	c = serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{byLink}}).dial(root)
	if st := c.mnt(sub).Status; st != mount3.ErrNoEnt {
		t.Errorf("MNT of the path, which is no name: %v, want %v", st, mount3.ErrNoEnt)
	}

	c = serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/m", ByPath: true, FS: memory(t)}}}).dial(root)
	if st := c.mnt("/").Status; st != mount3.ErrNoEnt {
		t.Errorf("MNT beside an export of memory: %v, want %v", st, mount3.ErrNoEnt)
	}

	byLink.FS, byLink.ByPath = diskAt(t, link), true
	h = serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{byLink, {Name: real, FS: memory(t)}}})
	if got := h.dial(root).mount(real).root; got != h.srv.RootHandle(real) {
		t.Error("MNT of an export's name gives another export, the target of its link")
	}
}

func TestExportNames(t *testing.T) {
	for _, names := range [][]string{{}, {"x"}, {"/x/"}, {"/a/../b"}, {""}, {"/x", "/x"}} {
		var o nfsserver.Options
		for _, n := range names {
			o.Exports = append(o.Exports, nfsserver.Export{Name: n, FS: memory(t)})
		}
		if _, err := nfsserver.New(o); err == nil {
			t.Errorf("exports %q: no error", names)
		}
	}
}

// TestHandlesSurvive: a handle leads to its file after a rename, with hard links, and after a
// restart of the server, and never to another file.
func TestHandlesSurvive(t *testing.T) {
	dir := t.TempDir()
	key, err := nfsserver.LoadKey(filepath.Join(t.TempDir(), "state", "deeper"))
	if err != nil {
		t.Fatalf("nfsserver.LoadKey: %v", err)
	}
	start := func() (*host, *client) {
		h := serve(t, nfsserver.Options{Exports: []nfsserver.Export{{Name: "/x", FS: diskAt(t, dir)}}, Key: key,
			Squash: nfsserver.Squash{NoRootSquash: true, All: os.Geteuid() != 0, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}})
		return h, h.dial(root).mount("/x")
	}
	h, c := start()
	d := c.dir(c.root, "d", 0o755)
	f, gone := c.file(d, "f", 0o644), c.file(d, "gone", 0o644)
	verf := c.write(f, 0, "content", nfs3.FileSync).Verf
	c.want("LINK", c.link(f, c.root, "other").Status, nfs3.OK)
	c.want("RENAME", c.rename(d, "f", c.root, "g").Status, nfs3.OK)
	rootFH := c.root
	h.stop()

	if err := os.Rename(filepath.Join(dir, "g"), filepath.Join(dir, "d", "moved behind our back")); err != nil {
		t.Fatalf("os.Rename: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "d", "gone")); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	for range 100 { // often, so that the removed file's inode number is reused
		if err := os.WriteFile(filepath.Join(dir, "d", "gone"), nil, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		if err := os.Rename(filepath.Join(dir, "d", "gone"), filepath.Join(dir, "d", "new")); err != nil {
			t.Fatalf("os.Rename: %v", err)
		}
	}
	_, c = start()
	if c.root != rootFH {
		t.Error("the root has another handle after a restart")
	}
	res, data := c.read(f, 0, 100)
	c.want("READ after a restart", res.Status, nfs3.OK)
	if data != "content" || res.Attr.Attr.Nlink != 2 {
		t.Errorf("READ after a restart: %q, %d links, want %q and 2", data, res.Attr.Attr.Nlink, "content")
	}
	if got := c.lookup(c.root, "other"); got.FH != f {
		t.Error("the hard link has another handle")
	}
	if w := c.write(f, 0, "", nfs3.Unstable); w.Verf == verf {
		t.Error("the write verifier is that of the run before")
	}
	c.want("GETATTR of what was removed", c.getattr(gone).Status, nfs3.ErrStale)
	c.want("REMOVE", c.remove(c.root, "other").Status, nfs3.OK)
	c.want("GETATTR with one name left", c.getattr(f).Status, nfs3.OK)
	c.want("REMOVE", c.remove(d, "moved behind our back").Status, nfs3.OK)
	c.want("GETATTR with no name left", c.getattr(f).Status, nfs3.ErrStale)
}
