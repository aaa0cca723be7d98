// A mount as programs use it: files, directories, links, and features that NFSv3 lacks.

package fusefs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// Files of many sizes survive writing and reading over both transports.
func TestFilesRoundTrip(t *testing.T) {
	for name, rdma := range map[string]bool{"tcp": false, "rdma": true} {
		t.Run(name, func(t *testing.T) {
			m := mountOver(t, options{}, rdma)
			for _, size := range []int{0, 1, 4095, 4096, 100_000, 1 << 20, 5<<20 + 17} {
				data := make([]byte, size)
				for i := range data {
					data[i] = byte(rand.Uint32())
				}
				must.Succeed(t, os.WriteFile(m.at("file"), data, 0o640))
				there, err := os.ReadFile(m.there("file"))
				must.Succeed(t, err)
				if !bytes.Equal(there, data) {
					t.Fatalf("%d bytes written: the server has %d others after close", size, len(there))
				}
				here, err := os.ReadFile(m.at("file"))
				must.Succeed(t, err)
				if !bytes.Equal(here, data) {
					t.Fatalf("%d bytes written: %d others read", size, len(here))
				}
			}
			st, err := os.Stat(m.at("file"))
			must.Succeed(t, err)
			if st.Mode() != 0o640 {
				t.Errorf("mode %v", st.Mode())
			}
		})
	}
}

// With nosymfollow a symbolic link can be read but not followed.
func TestNoSymfollow(t *testing.T) {
	machine.NeedRoot(t, "only root can use nosymfollow")
	m := mount(t, options{Words: "nosymfollow"})
	must.Succeed(t, os.WriteFile(m.at("file"), nil, 0o600))
	must.Succeed(t, os.Symlink("file", m.at("link")))
	target, err := os.Readlink(m.at("link"))
	must.Succeed(t, err)
	if target != "file" {
		t.Errorf("the link is to %q, want file", target)
	}
	_, err = os.Stat(m.at("link"))
	want(t, err, syscall.ELOOP)
}

// coreutils and tar make, copy, compare and remove a tree.
func TestTreeOfTools(t *testing.T) {
	m := mount(t, options{})
	script := `set -e
mkdir -p a/b/c a/d
for i in $(seq 200); do echo "file $i" > a/b/f$i; done
ln -s b/f1 a/link; ln a/b/f1 a/hard; mkfifo a/fifo
[ "$(cat a/link)" = "file 1" ] && [ "$(stat -c %h a/hard)" = 2 ]
[ "$(stat -c %i a/hard)" = "$(stat -c %i a/b/f1)" ]
[ "$(ls a/b | wc -l)" = 201 ]
cp -a a copy; diff -r --no-dereference a/b copy/b
tar -cf t.tar a; mkdir x; tar -xf t.tar -C x; diff -r x/a/b a/b
mv a/b/f2 a/d/f2; [ ! -e a/b/f2 ]; [ "$(cat a/d/f2)" = "file 2" ]
mv -T x/a a/d2; rm -r a copy x t.tar; [ -z "$(ls -A)" ]`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = m.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Features that NFSv3 lacks fail as in the kernel's NFS client.
func TestAbsentFeaturesHaveTheKernelsErrors(t *testing.T) {
	m := mount(t, options{})
	file, err := os.Create(m.at("file"))
	must.Succeed(t, err)
	defer file.Close()
	_, err = file.Write(make([]byte, 10_000))
	must.Succeed(t, err)
	fd := int(file.Fd())
	want(t, unix.Fallocate(fd, 0, 0, 4096), unix.EOPNOTSUPP)
	want(t, unix.Setxattr(m.at("file"), "user.x", []byte("y"), 0), unix.EOPNOTSUPP)
	_, err = unix.Getxattr(m.at("file"), "user.x", nil)
	want(t, err, unix.EOPNOTSUPP)
	_, err = unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	want(t, err, unix.ENOTTY)
	if off, err := unix.Seek(fd, 100, unix.SEEK_DATA); off != 100 || err != nil {
		t.Errorf("SEEK_DATA: %d, %v", off, err)
	}
	if off, err := unix.Seek(fd, 100, unix.SEEK_HOLE); off != 10_000 || err != nil {
		t.Errorf("SEEK_HOLE: %d, %v", off, err)
	}
	_, err = unix.Seek(fd, 10_000, unix.SEEK_DATA)
	want(t, err, unix.ENXIO)
	want(t, unix.Renameat2(unix.AT_FDCWD, m.at("file"), unix.AT_FDCWD, m.at("other"), unix.RENAME_NOREPLACE), unix.EINVAL)
	_, err = unix.Open(m.dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	want(t, err, unix.EOPNOTSUPP)
}

// Names of 255 bytes and names without valid UTF-8 work; longer names are errors.
func TestNamesOfAnyBytes(t *testing.T) {
	m := mount(t, options{})
	for _, name := range []string{strings.Repeat("n", 255), "\xff\xfe\x80", "line\nbreak", "-rf", "ünï"} {
		must.Succeed(t, os.WriteFile(m.at(name), nil, 0o600))
		if _, err := os.Lstat(m.there(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		list, err := os.ReadDir(m.dir)
		must.Succeed(t, err)
		// The kernel reports the last close late, so the file may still have its hidden name.
		list = slices.DeleteFunc(list, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".nfs") })
		if len(list) != 1 || list[0].Name() != name {
			t.Errorf("%q is listed as %v", name, list)
		}
		must.Succeed(t, os.Remove(m.at(name)))
	}
	want(t, os.WriteFile(m.at(strings.Repeat("n", 256)), nil, 0o600), unix.ENAMETOOLONG)
	want(t, os.Mkdir(m.at(strings.Repeat("n", 256)), 0o700), unix.ENAMETOOLONG)
	_, err := os.Stat(m.at(strings.Repeat("n", 256)))
	want(t, err, unix.ENAMETOOLONG)
}

// An open file that is removed or replaced stays readable until it is closed, and leaves nothing
// afterwards.
func TestRemovedFileStaysUntilClosed(t *testing.T) {
	m := mount(t, options{})
	must.Succeed(t, os.WriteFile(m.at("gone"), []byte("removed"), 0o600))
	must.Succeed(t, os.WriteFile(m.at("old"), []byte("replaced"), 0o600))
	must.Succeed(t, os.WriteFile(m.at("new"), []byte("newcomer"), 0o600))
	gone, err := os.OpenFile(m.at("gone"), os.O_RDWR, 0)
	must.Succeed(t, err)
	old, err := os.Open(m.at("old"))
	must.Succeed(t, err)
	must.Succeed(t, os.Remove(m.at("gone")))
	must.Succeed(t, os.Rename(m.at("new"), m.at("old")))
	if _, err := os.Stat(m.at("gone")); !os.IsNotExist(err) {
		t.Errorf("a removed file: %v", err)
	}
	_, err = gone.WriteAt([]byte("R"), 0)
	must.Succeed(t, err)
	must.Succeed(t, gone.Sync())
	buf := make([]byte, 8)
	if n, _ := gone.ReadAt(buf, 0); string(buf[:n]) != "Removed" {
		t.Errorf("the removed file holds %q", buf[:n])
	}
	if n, _ := old.ReadAt(buf, 0); string(buf[:n]) != "replaced" {
		t.Errorf("the replaced file holds %q", buf[:n])
	}
	if st, _ := gone.Stat(); st.Sys().(*syscall.Stat_t).Nlink != 0 {
		t.Errorf("the removed file has %d links", st.Sys().(*syscall.Stat_t).Nlink)
	}
	if hidden, _ := filepath.Glob(m.there(".nfs*")); len(hidden) != 2 {
		t.Errorf("hidden names: %q", hidden)
	}
	gone.Close()
	old.Close()
	must.Become(t, "the hidden names are removed", func() bool {
		list, _ := os.ReadDir(m.export)
		return len(list) == 1 && list[0].Name() == "old"
	})
	if data, _ := os.ReadFile(m.at("old")); string(data) != "newcomer" {
		t.Errorf("the name has %q", data)
	}
}

// A directory of several pages lists completely, from the start and from positions in it.
func TestListingOfManyNames(t *testing.T) {
	m := mount(t, options{})
	var names []string
	for i := range 3000 {
		name := "a name that fills pages " + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + time.Duration(i).String()
		must.Succeed(t, os.WriteFile(m.there(name), nil, 0o600))
		names = append(names, name)
	}
	slices.Sort(names)
	for range 2 {
		list, err := os.ReadDir(m.dir)
		must.Succeed(t, err)
		var got []string
		for _, e := range list {
			got = append(got, e.Name())
		}
		if !slices.Equal(got, names) {
			t.Fatalf("%d names of %d", len(got), len(names))
		}
	}
}

// An empty directory is replaced although a program has it open.
func TestRenameOverOpenDirectory(t *testing.T) {
	m := mount(t, options{})
	must.Succeed(t, os.Mkdir(m.at("a"), 0o755))
	must.Succeed(t, os.Mkdir(m.at("b"), 0o755))
	open, err := os.Open(m.at("b"))
	must.Succeed(t, err)
	defer open.Close()
	must.Succeed(t, unix.Rename(m.at("a"), m.at("b")))
	if hidden, _ := filepath.Glob(m.there(".nfs*")); len(hidden) != 0 {
		t.Errorf("hidden names: %q", hidden)
	}
}

// FUSE does not report the open of a FIFO. Even so, an open FIFO keeps its attributes after its
// removal.
func TestRemovedFIFOIsStillThere(t *testing.T) {
	m := mount(t, options{AcMin: time.Millisecond, AcMax: time.Millisecond})
	must.Succeed(t, unix.Mkfifo(m.at("fifo"), 0o640))
	file, err := os.OpenFile(m.at("fifo"), os.O_RDWR, 0)
	must.Succeed(t, err)
	defer file.Close()
	must.Succeed(t, os.Remove(m.at("fifo")))
	time.Sleep(5 * time.Millisecond)
	st, err := file.Stat()
	must.Succeed(t, err)
	if sys := st.Sys().(*syscall.Stat_t); sys.Nlink != 0 || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %d links", st.Mode(), sys.Nlink)
	}
}

// A directory is removable right after the close of its removed file.
func TestRmdirAfterLastClose(t *testing.T) {
	m := mount(t, options{})
	for range 20 {
		must.Succeed(t, os.Mkdir(m.at("dir"), 0o755))
		file, err := os.Create(m.at("dir/file"))
		must.Succeed(t, err)
		must.Succeed(t, os.Remove(m.at("dir/file")))
		must.Succeed(t, file.Close())
		must.Succeed(t, os.Remove(m.at("dir")))
	}
}

// If a program has a removed file open, rmdir reports at once that the directory is not empty.
func TestRmdirWaitsForNoOpenFile(t *testing.T) {
	m := mount(t, options{})
	must.Succeed(t, os.Mkdir(m.at("dir"), 0o755))
	file, err := os.Create(m.at("dir/file"))
	must.Succeed(t, err)
	must.Succeed(t, os.Remove(m.at("dir/file")))
	before := m.stats().Calls["RMDIR"].Count
	want(t, unix.Rmdir(m.at("dir")), unix.ENOTEMPTY)
	if n := m.stats().Calls["RMDIR"].Count - before; n != 1 {
		t.Errorf("%d RMDIRs", n)
	}
	must.Succeed(t, file.Close())
}

// A name removed during a listing stays removed, although the page that the server sent earlier has
// it.
func TestListingBringsNoRemovedName(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	const files = 250
	for i := range files {
		must.Succeed(t, os.WriteFile(m.there(fmt.Sprintf("name%04d", i)), nil, 0o600))
	}
	dir, err := os.Open(m.dir)
	must.Succeed(t, err)
	defer dir.Close()
	first, err := dir.Readdirnames(1)
	must.Succeed(t, err)
	var removed []string
	for i := range files {
		if name := fmt.Sprintf("name%04d", i); name != first[0] {
			must.Succeed(t, os.Remove(m.at(name)))
			removed = append(removed, name)
		}
	}
	_, err = dir.Readdirnames(-1)
	must.Succeed(t, err)
	for _, name := range removed {
		if _, err := os.Lstat(m.at(name)); !os.IsNotExist(err) {
			t.Fatalf("%s is back: %v", name, err)
		}
	}
}
