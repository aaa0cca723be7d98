// Servers that answer with other statuses than Linux: attributes, not the status, show whether a
// name is a directory.

package nfsclient_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// refusing answers REMOVE with a status, for directories only or for all.
func refusing(status *atomic.Uint32, all bool) func(run) run {
	return func(real run) run {
		return func(c *transport.Call) error {
			args := *c.Args
			var a nfs3.RemoveArgs
			a.DecodeXDR(&args)
			if s := nfs3.Status(status.Load()); s != nfs3.OK && (all || strings.HasPrefix(string(a.Name), "dir")) {
				c.Args.Rest()
				(&nfs3.RemoveRes{Status: s}).EncodeXDR(c.Res)
				return nil
			}
			return real(c)
		}
	}
}

// Servers refuse REMOVE of a directory with ISDIR, PERM or INVAL. Only then Remove falls back on
// RMDIR, and Unlink returns EISDIR, like unlink(2) of Linux.
func TestRemoveOfDirectories(t *testing.T) {
	for _, c := range []struct {
		status nfs3.Status
		remove bool  // Remove removes the directory
		unlink error // the error of Unlink
	}{
		{nfs3.ErrIsDir, true, syscall.EISDIR}, {nfs3.ErrPerm, true, syscall.EISDIR}, {nfs3.ErrInval, true, syscall.EISDIR},
		{nfs3.ErrAcces, false, syscall.EACCES}, {nfs3.ErrROFS, false, syscall.EROFS}, {nfs3.ErrIO, false, syscall.EIO},
	} {
		var status atomic.Uint32
		status.Store(uint32(c.status))
		faulty(t, map[uint32]func(run) run{nfs3.ProcRemove: refusing(&status, false)}, func(t *testing.T, fsys *nfsclient.FS) {
			ctx := t.Context()
			must.Succeed(t, fsys.MkdirAll(ctx, "dir1", 0o755))
			if err := fsys.Unlink(ctx, "dir1"); !errors.Is(err, c.unlink) {
				t.Errorf("Unlink, %v: %v", c.status, err)
			}
			err := fsys.Remove(ctx, "dir1")
			if _, e := fsys.Lstat(ctx, "dir1"); errors.Is(e, fs.ErrNotExist) != c.remove || (err == nil) != c.remove {
				t.Errorf("Remove, %v: %v; then it is there: %v", c.status, err, e == nil)
			}
			if !c.remove && !errors.Is(err, c.status) {
				t.Errorf("Remove, %v: %v", c.status, err)
			}
		})
	}
}

// The same statuses for a file are real errors, and RMDIR is not tried.
func TestRemoveOfFilesThatAreRefused(t *testing.T) {
	for s, want := range map[nfs3.Status]error{nfs3.ErrPerm: syscall.EPERM, nfs3.ErrInval: syscall.EINVAL, nfs3.ErrAcces: syscall.EACCES} {
		var status atomic.Uint32
		var n counts
		rows := n.rows(map[uint32]func(run) run{nfs3.ProcRemove: refusing(&status, true)})
		faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
			ctx := t.Context()
			status.Store(0)
			must.Succeed(t, fsys.WriteFile(ctx, "f", []byte("x"), 0o600))
			status.Store(uint32(s))
			for what, err := range map[string]error{"Remove": fsys.Remove(ctx, "f"), "Unlink": fsys.Unlink(ctx, "f")} {
				if !errors.Is(err, want) {
					t.Errorf("%s, %v: %v", what, s, err)
				}
			}
			// the error must not be ErrNotExist either
			if err := fsys.Remove(ctx, "none"); !errors.Is(err, want) {
				t.Errorf("Remove of nothing, %v: %v", s, err)
			}
			if calls := n.take(nfs3.ProcRmdir); calls > 0 {
				t.Errorf("%v: %d RMDIRs", s, calls)
			}
		})
	}
}

// Operations on the root and on dots return the system calls' errors.
func TestNamesThatAreNone(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "d/e", 0o755))
		must.Succeed(t, fsys.WriteFile(ctx, "f", []byte("x"), 0o600))
		for _, c := range []struct {
			name string
			what map[string]error
		}{
			{"/", map[string]error{"Remove": syscall.EBUSY, "Rmdir": syscall.EBUSY, "Unlink": syscall.EISDIR, "Mkdir": syscall.EEXIST, "Symlink": syscall.EEXIST, "Rename": syscall.EBUSY}},
			{"d/.", map[string]error{"Remove": syscall.EINVAL, "Rmdir": syscall.EINVAL, "Unlink": syscall.EISDIR, "Mkdir": syscall.EEXIST, "Symlink": syscall.EEXIST, "Rename": syscall.EBUSY}},
			{"d/..", map[string]error{"Remove": syscall.ENOTEMPTY, "Rmdir": syscall.ENOTEMPTY, "Unlink": syscall.EISDIR, "Mkdir": syscall.EEXIST, "Symlink": syscall.EEXIST, "Rename": syscall.EBUSY}},
			{"f/", map[string]error{"Remove": syscall.ENOTDIR, "Rmdir": syscall.ENOTDIR, "Unlink": syscall.ENOTDIR, "Symlink": syscall.EEXIST, "Rename": syscall.ENOTDIR}},
			{"f/x", map[string]error{"Remove": syscall.ENOTDIR, "Rmdir": syscall.ENOTDIR, "Unlink": syscall.ENOTDIR, "Mkdir": syscall.ENOTDIR, "Symlink": syscall.ENOTDIR, "Rename": syscall.ENOTDIR}},
			{"d/", map[string]error{"Unlink": syscall.EISDIR, "Remove": syscall.ENOTEMPTY, "Rmdir": syscall.ENOTEMPTY, "Mkdir": syscall.EEXIST}},
			{"none", map[string]error{"Remove": syscall.ENOENT, "Rmdir": syscall.ENOENT, "Unlink": syscall.ENOENT, "Rename": syscall.ENOENT}},
			{"none/", map[string]error{"Unlink": syscall.ENOENT, "Symlink": syscall.ENOENT, "Remove": syscall.ENOENT, "Rename": syscall.ENOENT}},
			{"none/x", map[string]error{"Mkdir": syscall.ENOENT, "Symlink": syscall.ENOENT, "Remove": syscall.ENOENT}},
			{strings.Repeat("x", 256), map[string]error{"Mkdir": syscall.ENAMETOOLONG, "Symlink": syscall.ENAMETOOLONG, "Remove": syscall.ENAMETOOLONG}},
		} {
			ops := map[string]func(name string) error{
				"Remove": func(n string) error { return fsys.Remove(ctx, n) }, "Rmdir": func(n string) error { return fsys.Rmdir(ctx, n) },
				"Unlink": func(n string) error { return fsys.Unlink(ctx, n) }, "Mkdir": func(n string) error { return fsys.Mkdir(ctx, n, 0o755) },
				"Symlink": func(n string) error { return fsys.Symlink(ctx, "to", n) },
				"Rename":  func(n string) error { return fsys.Rename(ctx, n, "new") },
			}
			for op, want := range c.what {
				if err := ops[op](c.name); !errors.Is(err, want) {
					t.Errorf("%s of %.20q: %v, want %v", op, c.name, err, want)
				}
			}
		}
		if got := strings.Join(listed(t, fsys), " "); got != "d f" {
			t.Errorf("left: %s", got)
		}
	})
}

// listed returns the names in the root.
func listed(t *testing.T, fsys *nfsclient.FS) (list []string) {
	t.Helper()
	for name := range names(t, fsys) {
		list = append(list, name)
	}
	return list
}

// A slash after either name requires a directory. The target may also have one.
func TestRenameOfDirectoriesWithASlash(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "a", 0o755))
		must.Succeed(t, fsys.WriteFile(ctx, "f", []byte("x"), 0o600))
		must.Succeed(t, fsys.Rename(ctx, "a/", "b"))
		must.Succeed(t, fsys.Rename(ctx, "b", "c/"))
		must.Succeed(t, fsys.Rename(ctx, "c/", "d//"))
		for _, names := range [][2]string{{"f/", "g"}, {"f", "g/"}, {"f", "d/"}} {
			if err := fsys.Rename(ctx, names[0], names[1]); !errors.Is(err, syscall.ENOTDIR) {
				t.Errorf("%v: %v", names, err)
			}
		}
		err := fsys.Rename(ctx, "none", "x")
		var link *os.LinkError
		if !errors.As(err, &link) {
			t.Fatalf("rename of a missing name: got %v, want a LinkError", err)
		}
		if got, want := [3]string{link.Op, link.Old, link.New}, [3]string{"rename", "none", "x"}; got != want {
			t.Errorf("rename of a missing name: got %q, want %q", got, want)
		}
		if got := strings.Join(listed(t, fsys), " "); got != "d f" {
			t.Errorf("left: %s", got)
		}
	})
}

// Link refuses directories as link(2) does, whichever status the server returns. If the new name
// exists, that is the error.
func TestLinkRefusesDirectories(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "d", 0o755))
		must.Succeed(t, fsys.WriteFile(ctx, "f", []byte("x"), 0o600))
		must.Succeed(t, fsys.Symlink(ctx, "f", "s"))
		for _, c := range []struct {
			from, to string
			want     error
		}{
			{"d", "new", syscall.EPERM}, {"d", "f", syscall.EEXIST}, {"d", "none/new", syscall.ENOENT},
			{"f", "d", syscall.EEXIST}, {"f", "new", nil}, {"s", "s2", nil}, {"f", "new", syscall.EEXIST}, {"none", "x", syscall.ENOENT},
			{"f", "x/", syscall.ENOENT}, {"f", "d/", syscall.EEXIST}, {"f", strings.Repeat("x", 256), syscall.ENAMETOOLONG},
		} {
			err := fsys.Link(ctx, c.from, c.to)
			var link *os.LinkError
			if !errors.Is(err, c.want) {
				t.Errorf("%s to %.10s: %v, want %v", c.from, c.to, err, c.want)
			}
			if err == nil {
				continue
			}
			if !errors.As(err, &link) {
				t.Fatalf("%s to %.10s: got %v, want a LinkError", c.from, c.to, err)
			}
			if got, want := [3]string{link.Op, link.Old, link.New}, [3]string{"link", c.from, c.to}; got != want {
				t.Errorf("%s to %.10s: got %q, want %q", c.from, c.to, got, want)
			}
		}
		if to, err := fsys.ReadLink(ctx, "s2"); to != "f" || err != nil {
			t.Errorf("a link to a symbolic link is %q, %v", to, err)
		}
	})
}

// Impossible link contents fail without a call.
func TestSymlinkContents(t *testing.T) {
	var n counts
	faulty(t, n.rows(nil), func(t *testing.T, fsys *nfsclient.FS) {
		n.take(nfs3.ProcSymlink)
		for target, want := range map[string]error{
			"": syscall.ENOENT, "a\x00": fs.ErrInvalid, "\x00": fs.ErrInvalid,
			strings.Repeat("x", nfs3.MaxPath): syscall.ENAMETOOLONG, strings.Repeat("x", nfs3.MaxPath+1): syscall.ENAMETOOLONG,
		} {
			if err := fsys.Symlink(t.Context(), target, "link"); !errors.Is(err, want) {
				t.Errorf("%d bytes: %v, want %v", len(target), err, want)
			}
		}
		if calls := n.take(nfs3.ProcSymlink); calls > 0 {
			t.Errorf("%d SYMLINKs", calls)
		}
		longest := strings.Repeat("x", nfs3.MaxPath-1)
		must.Succeed(t, fsys.Symlink(t.Context(), longest, "link"))
		if got, err := fsys.ReadLink(t.Context(), "link"); got != longest || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		must.Succeed(t, fsys.Remove(t.Context(), "link"))
	})
}

// Mknod makes each kind with its mode and numbers, and fails for other kinds.
func TestMknodKinds(t *testing.T) {
	fsys := mountNew(t, nfsclient.TCP, "memfs", nfsclient.Options{})
	ctx := t.Context()
	for name, mode := range map[string]fs.FileMode{"fifo": fs.ModeNamedPipe, "sock": fs.ModeSocket} {
		must.Succeed(t, fsys.Mknod(ctx, name, mode|0o640, 0, 0))
		if fi, err := fsys.Lstat(ctx, name); err != nil || fi.Mode() != mode|0o640 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
	for _, mode := range []fs.FileMode{0, fs.ModeDir, fs.ModeSymlink, fs.ModeIrregular, fs.ModeCharDevice} {
		if err := fsys.Mknod(ctx, "x", mode|0o600, 1, 2); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if err := fsys.Mknod(ctx, "fifo", fs.ModeNamedPipe, 0, 0); !errors.Is(err, fs.ErrExist) {
		t.Errorf("what is there: %v", err)
	}
}

// MkdirAll makes the missing directories that links lead to. A dangling link or a non-directory in
// the path is an error.
func TestMkdirAllThroughLinks(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "a/b/../c//d/", 0o755))
		must.Succeed(t, fsys.Symlink(ctx, "a/c", "link"))
		must.Succeed(t, fsys.Symlink(ctx, "none", "dangling"))
		must.Succeed(t, fsys.WriteFile(ctx, "f", []byte("x"), 0o600))
		must.Succeed(t, fsys.MkdirAll(ctx, "link/e/f", 0o755))
		must.Succeed(t, fsys.MkdirAll(ctx, "/", 0o755))
		must.Succeed(t, fsys.MkdirAll(ctx, "a", 0o755))
		for _, name := range []string{"a/b", "a/c/d", "a/c/e/f"} {
			if fi, err := fsys.Stat(ctx, name); err != nil || !fi.IsDir() {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, want := range map[string]error{"dangling": syscall.EEXIST, "dangling/x": syscall.EEXIST, "f": syscall.ENOTDIR, "f/x": syscall.ENOTDIR,
			strings.Repeat("x", 256) + "/y": syscall.ENAMETOOLONG} {
			if err := fsys.MkdirAll(ctx, name, 0o755); !errors.Is(err, want) {
				t.Errorf("%.20s: %v, want %v", name, err, want)
			}
		}
		if got := strings.Join(listed(t, fsys), " "); got != "a dangling f link" {
			t.Errorf("made: %s", got)
		}
	})
}

// A directory made by another client at the same moment is accepted.
func TestMkdirAllBesideOthers(t *testing.T) {
	rows := map[uint32]func(run) run{nfs3.ProcMkdir: func(real run) run {
		return func(c *transport.Call) error {
			at := c.Res.Len()
			if err := real(c); err != nil { // the directory is made, but the reply is EXIST
				return err
			}
			c.Res.Truncate(at)
			(&nfs3.MkdirRes{Status: nfs3.ErrExist}).EncodeXDR(c.Res)
			return nil
		}
	}}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		must.Succeed(t, fsys.MkdirAll(t.Context(), "a/b", 0o755))
		must.Succeed(t, fsys.RemoveAll(t.Context(), "a"))
	})
	rows[nfs3.ProcMkdir] = answer(&nfs3.MkdirRes{Status: nfs3.ErrExist})
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) { // here MKDIR never makes the directory
		if err := fsys.MkdirAll(t.Context(), "a/b", 0o755); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v", err)
		}
	})
}
