// Path resolution compared with the kernel's: the same tree, operation and path give the same error
// and result.

package nfsclient_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// oracleTree is the tree before each case. A directory's name ends in a slash; a link has a target.
var oracleTree = []struct{ name, target string }{
	{"f", ""}, {"d/", ""}, {"d/g", ""}, {"d/e/", ""}, {"d/e/h", ""}, {"z/", ""},
	{"lf", "f"}, {"ld", "d"}, {"le", "d/e"}, {"lz", "z/"}, {"lfs", "f/"}, {"d/e/up", "../g"}, {"d/out", "../f"},
	{"dang", "nope"}, {"dangd", "d/new"}, {"dangs", "nope/"}, {"deep", "no/where"}, {"loop", "loop"}, {"viaf", "f/x"},
	{"dots", "d/e/../.."}, {"lldots", "le/.."},
}

// forms has the paths, including names that are not in the tree.
var forms = func() []string {
	list := []string{
		".", "./", "d/.", "d/..", "d/./", "d/../", "ld/.", "ld/..", "f/.", "f/..", "new/.", "new/..", "dang/.", "loop/.",
		"d/g", "d/g/", "ld/g", "ld/e/../g", "le/../g", "le/../../f", "d/e/up", "d/e/up/", "d/out", "d/out/..", "le/up",
		"new/x", "f/x", "new/../f", "f/../f", "d/../f", "d//g", ".//f", "d/e/../../f//", "d/new", "d/new/", "ld/new", "le/../new",
		"dang/x", "lf/x", "dots/f", "dots/new", "lldots/g", "loop/x", "d/e/../..", "le/..", "le/../", "d/../new/",
		strings.Repeat("n", 255), strings.Repeat("n", 256), "d/" + strings.Repeat("n", 300) + "/x", "new/" + strings.Repeat("n", 300),
		"zero\x00byte", "z", "z/", "z//",
	}
	for _, e := range oracleTree {
		if name := strings.TrimSuffix(e.name, "/"); !strings.Contains(name, "/") && name != "z" {
			list = append(list, name, name+"/")
		}
	}
	return append(list, "new", "new/", "new//")
}()

// An oracleOp is an operation that runs both in the kernel and through the client.
type oracleOp struct {
	name  string
	local func(p string) error
	nfs   func(ctx context.Context, f *nfsclient.FS, p string) error
}

// errOf returns the error from a call with two results.
func errOf[T any](_ T, err error) error { return err }

func openBoth(name string, flag int) oracleOp {
	return oracleOp{name,
		func(p string) error {
			f, err := os.OpenFile(p, flag, 0o640)
			if err == nil {
				f.Close()
			}
			return err
		},
		func(ctx context.Context, f *nfsclient.FS, p string) error {
			file, err := f.OpenFile(ctx, p, flag, 0o640)
			if err == nil {
				file.Close()
			}
			return err
		}}
}

var when = time.Unix(1e9, 0)

var oracleOps = []oracleOp{
	{"stat", func(p string) error { return errOf(os.Stat(p)) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return errOf(f.Stat(ctx, p)) }},
	{"lstat", func(p string) error { return errOf(os.Lstat(p)) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return errOf(f.Lstat(ctx, p)) }},
	{"readlink", func(p string) error { return errOf(os.Readlink(p)) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return errOf(f.ReadLink(ctx, p)) }},
	{"access", func(p string) error { return syscall.Access(p, 4) },
		func(ctx context.Context, f *nfsclient.FS, p string) error {
			return errOf(f.Access(ctx, p, nfs3.AccessRead))
		}},
	{"chmod", func(p string) error { return os.Chmod(p, 0o750) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.Chmod(ctx, p, 0o750) }},
	{"lchown", func(p string) error { return os.Lchown(p, -1, os.Getegid()) },
		func(ctx context.Context, f *nfsclient.FS, p string) error {
			return f.Lchown(ctx, p, -1, os.Getegid())
		}},
	{"chtimes", func(p string) error { return os.Chtimes(p, when, when) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.Chtimes(ctx, p, when, when) }},
	{"truncate", func(p string) error { return os.Truncate(p, 1) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.Truncate(ctx, p, 1) }},
	openBoth("open", os.O_RDONLY),
	openBoth("open to write", os.O_WRONLY),
	openBoth("open to truncate", os.O_RDWR|os.O_TRUNC),
	openBoth("create", os.O_RDWR|os.O_CREATE|os.O_TRUNC),
	openBoth("create to read", os.O_RDONLY|os.O_CREATE),
	openBoth("create new", os.O_RDWR|os.O_CREATE|os.O_EXCL),
	{"mkdir", func(p string) error { return os.Mkdir(p, 0o750) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.Mkdir(ctx, p, 0o750) }},
	{"mkdirall", func(p string) error { return os.MkdirAll(p, 0o750) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.MkdirAll(ctx, p, 0o750) }},
	{"symlink", func(p string) error { return os.Symlink("x", p) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.Symlink(ctx, "x", p) }},
	{"mkfifo", func(p string) error { return syscall.Mkfifo(p, 0o640) },
		func(ctx context.Context, f *nfsclient.FS, p string) error {
			return f.Mknod(ctx, p, fs.ModeNamedPipe|0o640, 0, 0)
		}},
	{"unlink", syscall.Unlink,
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.Unlink(ctx, p) }},
	{"rmdir", syscall.Rmdir,
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.Rmdir(ctx, p) }},
	{"remove", os.Remove,
		func(ctx context.Context, f *nfsclient.FS, p string) error { return f.Remove(ctx, p) }},
	{"readdir", func(p string) error { return errOf(os.ReadDir(p)) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return errOf(f.ReadDir(ctx, p)) }},
	{"sub", func(p string) error { return errOf(os.ReadDir(p)) },
		func(ctx context.Context, f *nfsclient.FS, p string) error { return errOf(f.Sub(ctx, p)) }},
}

// A pathPair has two equal trees: fsys exports the served one, and the kernel uses the local one.
type pathPair struct {
	t     *testing.T
	base  string // a local directory; fsys is the export of nfs below it
	fsys  *nfsclient.FS
	turns int

	local, served string // the present trees; "": both must be made
	sub           *nfsclient.FS
	fresh         string // what treeOf returns for a fresh tree
}

// next makes two fresh trees, unless the previous ones are unchanged.
func (o *pathPair) next() {
	if o.local != "" {
		return
	}
	o.turns++
	name := fmt.Sprint(o.turns)
	o.local, o.served = filepath.Join(o.base, "local", name), filepath.Join(o.base, "nfs", name)
	for _, top := range []string{o.local, o.served} {
		must.Succeed(o.t, os.MkdirAll(top, 0o755))
		for _, e := range oracleTree {
			p := filepath.Join(top, e.name)
			switch {
			case e.target != "":
				must.Succeed(o.t, os.Symlink(e.target, p))
			case strings.HasSuffix(e.name, "/"):
				must.Succeed(o.t, os.Mkdir(p, 0o755))
			default:
				must.Succeed(o.t, os.WriteFile(p, []byte(e.name), 0o644))
			}
		}
	}
	var err error
	o.sub, err = o.fsys.Sub(o.t.Context(), name)
	must.Succeed(o.t, err)
	o.fresh = treeOf(o.t, o.local)
}

// compare reports different errors or trees. Trees that have changed are not used again.
func (o *pathPair) compare(what string, want, got error) {
	o.t.Helper()
	if a, b := errnoOf(want), errnoOf(got); a != b {
		o.t.Errorf("%s: %v; the kernel says %v", what, got, want)
	}
	a, b := treeOf(o.t, o.local), treeOf(o.t, o.served)
	if a != b {
		o.t.Errorf("%s leaves\n%s\nand the kernel\n%s", what, b, a)
	}
	if a != o.fresh || b != o.fresh {
		must.Succeed(o.t, os.RemoveAll(o.local))
		must.Succeed(o.t, os.RemoveAll(o.served))
		o.local = ""
	}
}

func errnoOf(err error) error {
	var e syscall.Errno
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, fs.ErrInvalid):
		return syscall.EINVAL
	}
	return err
}

// treeOf returns the names, types, modes, link contents and sizes in a tree as text.
func treeOf(t *testing.T, top string) string {
	var b strings.Builder
	must.Succeed(t, filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		target, _ := os.Readlink(p)
		size := fi.Size()
		if d.IsDir() {
			size = 0
		}
		fmt.Fprintf(&b, "%s %v %d %s\n", strings.TrimPrefix(p, top), fi.Mode(), size, target)
		return nil
	}))
	return b.String()
}

func newPathPair(t *testing.T) *pathPair {
	base := t.TempDir()
	must.Succeed(t, os.MkdirAll(filepath.Join(base, "nfs"), 0o755))
	return &pathPair{t: t, base: base, fsys: mountDir(t, filepath.Join(base, "nfs"))}
}

// Each operation on each form of path has the same result in the kernel and through the client.
func TestPathsAsKernel(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0)) // the library applies no umask
	o := newPathPair(t)
	for _, op := range oracleOps {
		for _, form := range forms {
			o.next()
			want := op.local(o.local + "/" + form)
			got := op.nfs(t.Context(), o.sub, form)
			if op.name == "mkdirall" && want != nil && got != nil {
				got = want // package os returns various errors for a path that leads through a file
			}
			o.compare(fmt.Sprintf("%s %q", op.name, form), want, got)
		}
	}
}

// Rename and Link for pairs of paths have the same results as in the kernel.
func TestTwoPathsAsKernel(t *testing.T) {
	o := newPathPair(t)
	some := []string{"f", "f/", "d", "d/", "d/.", "d/..", "z", "z/", "lf", "lf/", "ld", "ld/", "lz/", "dang", "dang/", "new", "new/",
		"d/e", "d/g", "new/x", "f/x", "le/../g", "le/../new", "le/../new/", "loop", "loop/", ".", "d/out"}
	for _, from := range some {
		for _, to := range some {
			o.next()
			want := syscall.Rename(o.local+"/"+from, o.local+"/"+to)
			got := o.sub.Rename(t.Context(), from, to)
			o.compare(fmt.Sprintf("rename %q %q", from, to), want, got)
			o.next()
			want = syscall.Link(o.local+"/"+from, o.local+"/"+to)
			got = o.sub.Link(t.Context(), from, to)
			o.compare(fmt.Sprintf("link %q %q", from, to), want, got)
		}
	}
}

// As in the kernel, a path may lead through 40 links, but not 41.
func TestLinkChains(t *testing.T) {
	o := newPathPair(t)
	o.next()
	for _, top := range []string{o.local, o.served} {
		must.Succeed(t, os.Symlink("f", filepath.Join(top, "c1")))
		for i := 2; i <= 42; i++ {
			must.Succeed(t, os.Symlink(fmt.Sprintf("c%d", i-1), filepath.Join(top, fmt.Sprintf("c%d", i))))
		}
	}
	for i := 38; i <= 42; i++ {
		name := fmt.Sprintf("c%d", i)
		_, want := os.Stat(o.local + "/" + name)
		// If a concurrent change makes the kernel repeat a walk, the kernel counts the links twice,
		// so retry.
		for range 20 {
			if want != nil {
				_, want = os.Stat(o.local + "/" + name)
			}
		}
		_, got := o.sub.Stat(t.Context(), name)
		if errnoOf(want) != errnoOf(got) {
			t.Errorf("%d links: %v; the kernel says %v", i, got, want)
		}
	}
}

// No path and no link leads out of an FS.
func TestRootIsItsOwnParent(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "jail/in", 0o755))
		must.Succeed(t, fsys.WriteFile(ctx, "f", []byte("outside"), 0o600))
		must.Succeed(t, fsys.WriteFile(ctx, "jail/f", []byte("inside"), 0o600))
		must.Succeed(t, fsys.Symlink(ctx, "../../../f", "jail/in/l"))
		must.Succeed(t, fsys.Symlink(ctx, "/f", "jail/in/abs"))
		jail, err := fsys.Sub(ctx, "jail")
		must.Succeed(t, err)
		for _, p := range []string{"../f", "/../f", "in/../../f", "in/l", "in/abs", "../../in/../f", "//..//./f"} {
			if b, err := jail.ReadFile(ctx, p); err != nil || string(b) != "inside" {
				t.Errorf("%s: %q, %v", p, b, err)
			}
		}
		for op, c := range map[string]struct {
			err  error
			want error
		}{
			"mkdir":     {jail.Mkdir(ctx, "..", 0o755), syscall.EEXIST},
			"rmdir":     {jail.Rmdir(ctx, "/"), syscall.EBUSY},
			"remove":    {jail.Remove(ctx, ""), syscall.EBUSY},
			"removeall": {jail.RemoveAll(ctx, "/"), syscall.EBUSY},
			"of dot":    {jail.RemoveAll(ctx, "in/."), syscall.EINVAL},
			"of a file": {jail.RemoveAll(ctx, "f/"), syscall.ENOTDIR},
			"rename":    {jail.Rename(ctx, "/", "x"), syscall.EBUSY},
			"create":    {errOf(jail.Create(ctx, "/", 0o600)), syscall.EISDIR},
		} {
			if errnoOf(c.err) != c.want {
				t.Errorf("%s of the root: %v, want %v", op, c.err, c.want)
			}
		}
		if got := slices.Collect(names(t, jail)); !slices.Equal(got, []string{"f", "in"}) {
			t.Errorf("left: %q", got)
		}
	})
}
