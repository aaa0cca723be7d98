// A tree with many files, copied to a volume and back by nfsrdma cp over RDMA, with each metadata
// service and an S3 server.

package juicefs

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// goTree returns the directory to copy: src/crypto in Go's tree, with some 1,200 files, or with
// NFSRDMA_FULL=1 the whole tree, with some 15,000.
func goTree(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("exec.Command.Output: %v", err)
	}
	root := strings.TrimSpace(string(out))
	if os.Getenv("NFSRDMA_FULL") != "" {
		return root
	}
	return filepath.Join(root, "src", "crypto")
}

// oddTree adds objects that Go's tree lacks: modes, times, links, a hole, and more bytes than one
// block of the volume.
func oddTree(t *testing.T, root string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "sticky", "below"), 0o755))
	large := make([]byte, 9<<20+1)
	for i := range large {
		large[i] = byte(i / 4093)
	}
	for name, content := range map[string][]byte{"large": large, "hole": nil, "run": []byte("#!/bin/sh\n"), "sticky/kept": []byte("x"), "a name\twith \xff and \u00e9": []byte("y")} {
		must(os.WriteFile(filepath.Join(root, name), content, 0o644))
	}
	must(os.Symlink("large", filepath.Join(root, "link")))
	must(os.Symlink("nowhere/at all", filepath.Join(root, "dangling")))
	must(os.Truncate(filepath.Join(root, "hole"), 5<<20))
	for name, mode := range map[string]uint32{"run": 0o4751, "sticky/kept": 0o400, "sticky/below": 0o2755, "sticky": 0o1777} {
		must(syscall.Chmod(filepath.Join(root, name), mode))
	}
	// a directory's time is set after the times of its entries
	for i, name := range []string{"run", "sticky/kept", "sticky"} {
		at := []syscall.Timespec{{Sec: int64(1000 * i)}, {Sec: 1_700_000_000 + int64(i), Nsec: 123_456_789}}
		must(syscall.UtimesNano(filepath.Join(root, name), at))
	}
}

// TestTreeOutAndBack copies a tree to a volume, and back through another server without cached
// data: so each byte comes from the object storage.
func TestTreeOutAndBack(t *testing.T) {
	dir := t.TempDir()
	nfsrdma, tree := filepath.Join(dir, "nfsrdma"), filepath.Join(dir, "tree")
	build := exec.Command("go", "build", "-o", nfsrdma, "./cmd/nfsrdma")
	build.Dir = filepath.Join("..", "..")
	run(t, build)
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	run(t, exec.Command("cp", "-a", goTree(t), tree))
	oddTree(t, tree)
	want := treeOf(t, tree)
	t.Logf("%d names", len(want))

	onServices(t, func(t *testing.T, url string) {
		back := filepath.Join(t.TempDir(), "back")
		for _, way := range []func(remote string) []string{
			func(remote string) []string { return []string{"cp", "-r", "-p", tree, remote} },
			func(remote string) []string { return []string{"cp", "-r", "-p", remote, back} },
		} {
			f := openShared(t, Options{Meta: url})
			// the root of a new volume belongs to user root
			if err := f.Setattr(nfsserver.Cred{}, f.Root(), &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o777}); err != nil {
				t.Fatalf("Setattr: %v", err)
			}
			s, end := serveAt(t, f, nfsserver.Listen{RDMA: "127.0.0.1:0"})
			run(t, exec.Command(nfsrdma, way("nfsrdma://"+s.RDMAAddr.String()+"/vol/tree")...))
			end()
		}
		compareTrees(t, treeOf(t, back), want)
	})
}

func compareTrees(t *testing.T, got, want map[string]copied) {
	t.Helper()
	for name, w := range want {
		if g, ok := got[name]; !ok || g != w {
			t.Errorf("%q is %+v, %v, want %+v", name, g, ok, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d names are back, of %d", len(got), len(want))
	}
}

// run runs a program to its end, and fails the test if it prints anything.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
	}
}

// A copied has those properties of a name that must be equal.
type copied struct {
	mode    fs.FileMode // including the file type
	mtime   int64       // in ns; 0 for a symbolic link
	size    int         // set only for a file
	content string      // a file's hash, or a link's target
}

// treeOf returns the properties of each name in a tree.
func treeOf(t *testing.T, root string) map[string]copied {
	t.Helper()
	all := map[string]copied{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := copied{mode: info.Mode(), mtime: info.ModTime().UnixNano()}
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			e.mtime = 0
			e.content, err = os.Readlink(path)
		case !d.IsDir():
			var b []byte
			b, err = os.ReadFile(path)
			e.size, e.content = len(b), fmt.Sprintf("%x", sha256.Sum256(b))
		}
		all[name] = e
		return err
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return all
}
