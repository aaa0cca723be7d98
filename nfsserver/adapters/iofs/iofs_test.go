// Trees of io/fs over the wire, compared with themselves.

package iofs_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/wire"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/iofs"
)

func newTree(t *testing.T, fsys fs.FS, o adapters.Options) nfsserver.FS {
	t.Helper()
	tree, err := iofs.New(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// manyFiles returns a tree with directories of several pages.
func manyFiles() fstest.MapFS {
	m := fstest.MapFS{}
	for i := range 200 {
		m[fmt.Sprintf("many/file-with-a-long-name-%d", i)] = &fstest.MapFile{Data: fmt.Append(nil, i), Mode: 0o444}
	}
	m["a/b/c/d"] = &fstest.MapFile{Data: []byte("deep"), Mode: 0o644}
	m["a/link"] = &fstest.MapFile{Data: []byte("b/c"), Mode: fs.ModeSymlink | 0o777}
	m["empty"] = &fstest.MapFile{Mode: 0o444}
	return m
}

// zipped returns an archive with the files, and a file that reads cannot seek in.
func zipped(t *testing.T, large []byte) *zip.Reader {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range map[string][]byte{"large": large, "dir/small": []byte("small")} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTreesOverTheWire(t *testing.T) {
	disk := t.TempDir()
	if err := os.CopyFS(disk, files); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fsys      fs.FS
		serialize bool
		want      []string
	}{
		"embed":           {files, false, []string{"testdata/hello.txt", "testdata/docs/page.txt"}},
		"map":             {manyFiles(), false, []string{"a/b/c/d", "many/file-with-a-long-name-199", "empty"}},
		"zip, serialized": {zipped(t, bytes.Repeat([]byte("large"), 1000)), true, []string{"large", "dir/small"}},
		"disk":            {os.DirFS(disk), false, []string{"testdata/hello.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			export := wire.Mount(t, newTree(t, c.fsys, adapters.Options{Serialize: c.serialize}))
			if err := fstest.TestFS(export.IO(t.Context()), c.want...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStreams: parts of a compressed file are right, whatever the order and however many readers
// there are.
func TestStreams(t *testing.T) {
	large := make([]byte, 12<<20+7)
	rand.New(rand.NewSource(1)).Read(large[:1<<20])
	for i := 1 << 20; i < len(large); i++ {
		large[i] = byte(i >> 16)
	}
	tree := newTree(t, zipped(t, large), adapters.Options{})
	ref, _, err := tree.Lookup(nfsserver.Self(), tree.Root(), "large")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewSource(int64(w)))
			p := make([]byte, 300<<10)
			for range 6 {
				off := rnd.Intn(len(large) + 10)
				n, err := tree.ReadAt(nfsserver.Self(), ref, p, uint64(off))
				want := large[min(off, len(large)):min(off+len(p), len(large))]
				if err != nil || !bytes.Equal(p[:n], want) {
					t.Errorf("%d bytes at %d: got %d bytes, %v, or others", len(want), off, n, err)
				}
			}
		})
	}
	wg.Wait()
	if err := tree.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestHandlesSurviveRestarts: an FS with room for only a few objects knows the Refs given by an
// earlier process.
func TestHandlesSurviveRestarts(t *testing.T) {
	m, me := manyFiles(), nfsserver.Self()
	first, second := newTree(t, m, adapters.Options{}), newTree(t, m, adapters.Options{MaxObjects: 20})
	seen := 0
	walk := func(dir nfsserver.Ref) {
		_, err := first.ReadDir(me, dir, 0, true, func(de *nfsserver.Dirent) bool {
			seen++
			got, err := second.Getattr(de.Ref)
			if err != nil || got.Fileid != de.Attr.Fileid || got.Size != de.Attr.Size {
				t.Errorf("%s: got %+v, %v; want %+v", de.Name, got, err, de.Attr)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "many", "a"} {
		dir := first.Root()
		if name != "" {
			var err error
			if dir, _, err = first.Lookup(me, dir, name); err != nil {
				t.Fatal(err)
			}
		}
		walk(dir)
	}
	if want := 5 + 202 + 4; seen != want {
		t.Errorf("entries: got %d, want %d", seen, want)
	}
}

func TestReadOnly(t *testing.T) {
	tree, me := newTree(t, manyFiles(), adapters.Options{}), nfsserver.Self()
	root := tree.Root()
	file, _, err := tree.Lookup(me, root, "empty")
	if err != nil {
		t.Fatal(err)
	}
	mode := &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o600}
	for name, call := range map[string]func() error{
		"create":  func() error { _, _, err := tree.Create(me, root, "x", mode); return err },
		"mkdir":   func() error { _, _, err := tree.Mkdir(me, root, "x", mode); return err },
		"symlink": func() error { _, _, err := tree.Symlink(me, root, "x", "y", mode); return err },
		"write":   func() error { _, err := tree.WriteAt(me, file, []byte("x"), 0); return err },
		"setattr": func() error { return tree.Setattr(me, file, mode) },
		"remove":  func() error { return tree.Remove(me, root, "empty") },
		"rename":  func() error { return tree.Rename(me, root, "empty", root, "x") },
	} {
		if err := call(); !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: got %v, want %v", name, err, syscall.EROFS)
		}
	}
	if _, _, err := tree.Lookup(me, root, "\xff"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lookup of a name that io/fs does not allow: got %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := iofs.New(os.DirFS(filepath.Join(t.TempDir(), "absent")), adapters.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a tree without root: got %v, want %v", err, fs.ErrNotExist)
	}
}
