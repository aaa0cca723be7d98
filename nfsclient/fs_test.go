// Paths, names, attributes and listings.

package nfsclient_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "a/b/c", 0o755))
		must.Succeed(t, fsys.MkdirAll(ctx, "/a/b/c/", 0o755))
		must.Succeed(t, fsys.WriteFile(ctx, "a/b/c/f", []byte("content"), 0o600))
		must.Succeed(t, fsys.Rename(ctx, "a/b/c/f", "a/g"))
		must.Succeed(t, fsys.Link(ctx, "a/g", "a/b/h"))
		must.Succeed(t, fsys.Symlink(ctx, "b/h", "a/s"))
		fi, err := fsys.Stat(ctx, "a/s")
		must.Succeed(t, err)
		if fi.Name() != "s" {
			t.Errorf("stat through a link: name %q, want s", fi.Name())
		}
		if fi.Size() != 7 || fi.Attr.Nlink != 2 {
			t.Errorf("stat through a link: %d bytes, %d links, want 7, 2", fi.Size(), fi.Attr.Nlink)
		}
		if fi, err = fsys.Lstat(ctx, "a/s"); err != nil || fi.Mode().Type() != fs.ModeSymlink {
			t.Errorf("lstat of a link: %v, %v", fi, err)
		}
		if target, err := fsys.ReadLink(ctx, "a/s"); target != "b/h" || err != nil {
			t.Errorf("readlink: %q, %v", target, err)
		}
		must.Succeed(t, fsys.Mknod(ctx, "fifo", fs.ModeNamedPipe|0o600, 0, 0))
		if fi, err = fsys.Stat(ctx, "fifo"); err != nil || fi.Mode().Type() != fs.ModeNamedPipe {
			t.Errorf("FIFO: %v, %v", fi, err)
		}
		must.Succeed(t, fsys.Remove(ctx, "a/b/c")) // an empty directory
		must.Succeed(t, fsys.Remove(ctx, "a/g"))
		must.Succeed(t, fsys.RemoveAll(ctx, "a"))
		must.Succeed(t, fsys.RemoveAll(ctx, "a"))
		if _, err := fsys.Stat(ctx, "a"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after RemoveAll: %v", err)
		}
	})
}

func TestSymlinkWalk(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "d/e", 0o755))
		must.Succeed(t, fsys.WriteFile(ctx, "d/f", []byte("here"), 0o600))
		long := strings.Repeat("./", 2000) + "f" // is alone longer than the inline threshold
		for link, target := range map[string]string{
			"d/e/up": "../f", "abs": "/d/f", "dir": "d", "out": "../../../d/f", "loop": "loop2", "loop2": "loop", "d/long": long,
		} {
			must.Succeed(t, fsys.Symlink(ctx, target, link))
		}
		for _, p := range []string{"d/e/up", "abs", "dir/f", "dir/e/../f", "out", "../d//f", "d/long", "./dir/./e/up"} {
			if b, err := fsys.ReadFile(ctx, p); string(b) != "here" || err != nil {
				t.Errorf("%s: %q, %v", p, b, err)
			}
		}
		if got, err := fsys.ReadLink(ctx, "d/long"); got != long || err != nil {
			t.Errorf("long link: %d bytes, %v", len(got), err)
		}
		if _, err := fsys.Stat(ctx, "loop"); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("loop: %v", err)
		}
		sub, err := fsys.Sub(ctx, "dir")
		must.Succeed(t, err)
		if b, err := sub.ReadFile(ctx, "../f"); string(b) != "here" || err != nil {
			t.Errorf("below Sub: %q, %v", b, err)
		}
		if _, err := fsys.Sub(ctx, "d/f"); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("Sub of a file: %v", err)
		}
	})
}

func TestAttributes(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.WriteFile(ctx, "f", []byte("0123456789"), 0o600))
		must.Succeed(t, fsys.Chmod(ctx, "f", 0o754|fs.ModeSetuid))
		atime := time.Date(1999, 1, 2, 3, 4, 5, 987654321, time.UTC)
		mtime := time.Date(2040, 1, 2, 3, 4, 5, 123456789, time.UTC)
		must.Succeed(t, fsys.Chtimes(ctx, "f", atime, mtime))
		fi, err := fsys.Stat(ctx, "f")
		must.Succeed(t, err)
		if want := 0o754 | fs.ModeSetuid; fi.Mode() != want {
			t.Errorf("mode %v, want %v", fi.Mode(), want)
		}
		if !fi.ModTime().Equal(mtime) || !fi.AccessTime().Equal(atime) {
			t.Errorf("mtime %v, atime %v, want %v, %v", fi.ModTime(), fi.AccessTime(), mtime, atime)
		}
		must.Succeed(t, fsys.Truncate(ctx, "f", 4))
		if b, err := fsys.ReadFile(ctx, "f"); string(b) != "0123" || err != nil {
			t.Errorf("after truncate: %q, %v", b, err)
		}
		must.Succeed(t, fsys.Chown(ctx, "f", -1, -1))
		got, err := fsys.Access(ctx, "f", nfs3.AccessRead|nfs3.AccessModify)
		if err != nil || got&nfs3.AccessRead == 0 {
			t.Errorf("access: %#x, %v", got, err)
		}
		st, err := fsys.StatFS(ctx)
		if err != nil {
			t.Errorf("statfs: %v", err)
		}
		if st.Tbytes == 0 || st.Fbytes > st.Tbytes {
			t.Errorf("statfs: %d bytes free of %d", st.Fbytes, st.Tbytes)
		}
	})
}

func TestErrors(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "d/e", 0o755))
		must.Succeed(t, fsys.WriteFile(ctx, "f", nil, 0o600))
		stat := func(p string) error { _, err := fsys.Stat(ctx, p); return err }
		for name, c := range map[string]struct {
			got  error
			want []error
		}{
			"nothing there":                {stat("x"), []error{fs.ErrNotExist, syscall.ENOENT, nfs3.ErrNoEnt}},
			"below a file":                 {stat("f/x"), []error{syscall.ENOTDIR}},
			"zero byte":                    {stat("a\x00b"), []error{fs.ErrInvalid}},
			"name of 5000":                 {stat(strings.Repeat("n", 5000)), []error{syscall.ENAMETOOLONG}},
			"name of 300":                  {fsys.Mkdir(ctx, strings.Repeat("n", 300), 0o755), []error{syscall.ENAMETOOLONG}},
			"mkdir there":                  {fsys.Mkdir(ctx, "d", 0o755), []error{fs.ErrExist, syscall.EEXIST, nfs3.ErrExist}},
			"mkdir of root":                {fsys.Mkdir(ctx, "/", 0o755), []error{fs.ErrExist}},
			"rmdir of full":                {fsys.Rmdir(ctx, "d"), []error{syscall.ENOTEMPTY}},
			"remove of full":               {fsys.Remove(ctx, "d"), []error{syscall.ENOTEMPTY}},
			"rmdir of a file":              {fsys.Rmdir(ctx, "f"), []error{syscall.ENOTDIR}},
			"rename nothing":               {fsys.Rename(ctx, "x", "y"), []error{fs.ErrNotExist}},
			"link nothing":                 {fsys.Link(ctx, "x", "y"), []error{fs.ErrNotExist}},
			"symlink there":                {fsys.Symlink(ctx, "x", "f"), []error{fs.ErrExist}},
			"truncate to -1":               {fsys.Truncate(ctx, "f", -1), []error{fs.ErrInvalid}},
			"mkdirall on file":             {fsys.MkdirAll(ctx, "f/x", 0o755), []error{syscall.ENOTDIR}},
			"rename of a dir below itself": {fsys.Rename(ctx, "d", "d/e/x"), []error{fs.ErrInvalid}},
		} {
			for _, want := range c.want {
				if !errors.Is(c.got, want) {
					t.Errorf("%s: %v is not %v", name, c.got, want)
				}
			}
		}
		var pe *fs.PathError
		if err := stat("x"); !errors.As(err, &pe) || pe.Path != "x" {
			t.Errorf("%v is no PathError of x", err)
		}
	})
}

func TestIOFS(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "a/b", 0o755))
		must.Succeed(t, fsys.MkdirAll(ctx, "empty", 0o755))
		files := []string{"a/b/x", "a/y", "z"}
		for i, f := range files {
			must.Succeed(t, fsys.WriteFile(ctx, f, random(i*400, 4), 0o644))
		}
		if err := fstest.TestFS(fsys.IO(ctx), files...); err != nil {
			t.Errorf("fstest: %v", err)
		}
	})
}

func TestManyNames(t *testing.T) {
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		t.Run(tr.String(), func(t *testing.T) {
			t.Parallel()
			fsys := mountNew(t, tr, "memfs", nfsclient.Options{Conns: 2})
			ctx := t.Context()
			const count = 3000
			var wg sync.WaitGroup
			for g := range 16 {
				wg.Go(func() {
					for i := g; i < count; i += 16 {
						f, err := fsys.Create(ctx, name(i), 0o600)
						if err != nil {
							t.Errorf("create: %v", err)
							return
						}
						f.Close()
					}
				})
			}
			wg.Wait()
			list, err := fsys.ReadDir(ctx, "/")
			must.Succeed(t, err)
			if len(list) != count {
				t.Fatalf("%d names, want %d", len(list), count)
			}
			for i, e := range list {
				if e.Name() != name(i) || e.Type() != 0 {
					t.Fatalf("name %d is %q, type %v", i, e.Name(), e.Type())
				}
			}
			seen := 0
			for _, err := range fsys.Entries(ctx, ".") {
				must.Succeed(t, err)
				if seen++; seen == 3 {
					break
				}
			}
			must.Succeed(t, fsys.Mkdir(ctx, "d", 0o755))
			for _, e := range list[:100] {
				must.Succeed(t, fsys.Rename(ctx, e.Name(), "d/"+e.Name()))
			}
			must.Succeed(t, fsys.RemoveAll(ctx, "d"))
			if list, err = fsys.ReadDir(ctx, ""); err != nil || len(list) != count-100 {
				t.Fatalf("after RemoveAll: %d names, %v", len(list), err)
			}
		})
	}
}

// name returns a name of varying length, so that pages end in many ways.
func name(i int) string { return fmt.Sprintf("%06d%s", i, strings.Repeat("x", i%97)) }

func TestMountPath(t *testing.T) {
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		fsys := mountNew(t, tr, "memfs", nfsclient.Options{})
		c, ctx := fsys.Client(), t.Context()
		must.Succeed(t, fsys.MkdirAll(ctx, "a/b", 0o755))
		for p, want := range map[string]string{exportName: "", exportName + "/a/b": "a/b", exportName + "/a/../x/": "a/../x/"} {
			f, rest, err := c.MountPath(ctx, p)
			if err != nil {
				t.Errorf("MountPath(%s): %v", p, err)
				continue
			}
			if got, want := [2]string{f.Path(), rest}, [2]string{exportName, want}; got != want {
				t.Errorf("MountPath(%s): got %q, want %q", p, got, want)
			}
		}
		for _, p := range []string{"/", "/export", "/export/ones", "/nothing/at/all"} {
			var refused *nfsclient.MountError
			if _, _, err := c.MountPath(ctx, p); !errors.As(err, &refused) {
				t.Errorf("MountPath(%s): %v, want a MountError", p, err)
			}
		}
		list, err := c.Exports(ctx)
		if err != nil {
			t.Errorf("Exports: %v", err)
		}
		if len(list) != 1 || list[0].Dir != exportName {
			t.Errorf("Exports: got %v, want %s", list, exportName)
		}
		must.Succeed(t, c.Unmount(ctx, exportName))
	}
}
