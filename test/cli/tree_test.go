// A tree, entry by entry, and how two trees differ.

package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// An entry is one name in a tree, with all properties that a command must keep or set.
type entry struct {
	stat    syscall.Stat_t
	content string // hash of a file, target of a link
	group   string // the first name of the same inode, where there are several
}

// readTree returns the entries below dir by relative path. Times are read before content, because
// reading changes the access time.
func readTree(dir string) (map[string]*entry, error) {
	tree := map[string]*entry{}
	first := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		e := &entry{}
		if err := syscall.Lstat(path, &e.stat); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if e.stat.Nlink > 1 && !d.IsDir() {
			if first[e.stat.Ino] == "" {
				first[e.stat.Ino] = rel
			}
			e.group = first[e.stat.Ino]
		}
		tree[rel] = e
		return nil
	})
	for rel, e := range tree {
		if err == nil {
			e.content, err = content(filepath.Join(dir, rel), e.stat.Mode)
			// A link's target may contain the path of its side.
			e.content = strings.ReplaceAll(e.content, dir, "SIDE")
		}
	}
	return tree, err
}

func content(path string, mode uint32) (string, error) {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		return os.Readlink(path)
	case syscall.S_IFREG:
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		return sum(f)
	}
	return "", nil
}

// sum returns a hash of a file's content. Blocks of zeros do not count, in a hole or not: a file
// may have gigabytes of them, and its length is compared separately.
func sum(f *os.File) (string, error) {
	const block = 64 << 10
	h, buf, zeros := sha256.New(), make([]byte, block), make([]byte, block)
	for at := int64(0); ; at += block {
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO { // nothing but a hole from here on
			return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
		} else if err != nil {
			return "", err
		}
		at = data / block * block
		n, err := f.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return "", err
		}
		if !bytes.Equal(buf[:n], zeros[:n]) {
			fmt.Fprintf(h, "%d:%d:", at, n)
			h.Write(buf[:n])
		}
	}
}

// TestSum: a hole and zeros are the same, anything else is not.
func TestSum(t *testing.T) {
	dir := t.TempDir()
	of := func(size int64, pieces map[int64]string) string {
		t.Helper()
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatalf("os.CreateTemp: %v", err)
		}
		defer f.Close()
		if err := f.Truncate(size); err != nil {
			t.Fatalf("Truncate: %v", err)
		}
		for at, p := range pieces {
			if _, err := f.WriteAt([]byte(p), at); err != nil {
				t.Fatalf("WriteAt: %v", err)
			}
		}
		s, err := sum(f)
		if err != nil {
			t.Fatalf("sum: %v", err)
		}
		return s
	}
	const size = 1 << 33
	zeros := strings.Repeat("\x00", 200_000)
	plain := of(size, map[int64]string{1 << 32: "x", 100: "y"})
	if with := of(size, map[int64]string{1 << 32: "x" + zeros, 0: zeros[:100] + "y" + zeros}); with != plain {
		t.Errorf("zeros instead of holes: %s, want %s", with, plain)
	}
	for _, other := range []map[int64]string{{1 << 32: "x"}, {1<<32 + 1: "x", 100: "y"}, {1<<32 + 1<<16: "x", 100: "y"},
		{1 << 32: "x", 100: "z"}, {1 << 32: "x", 100: "y", size - 1: "z"}, {}} {
		if of(size, other) == plain {
			t.Errorf("%v is not told from another content", other)
		}
	}
}

// firstStamp is the first of a case's initial times. All are long ago, no two are equal, and none
// is a full second.
var firstStamp = time.Date(2020, 2, 3, 4, 5, 6, 123456789, time.UTC)

// stampTree sets old times on entries below dir that the setup made, unless the setup set their
// times. Corresponding entries of both sides get the same times, so a comparison shows whether a
// command kept them.
func stampTree(t *testing.T, dir string, since time.Time) {
	t.Helper()
	var paths []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			paths = append(paths, path)
		}
		return nil
	})
	slices.Sort(paths)
	for i, path := range slices.Backward(paths) {
		var st syscall.Stat_t
		if syscall.Lstat(path, &st) != nil || time.Unix(st.Mtim.Unix()).Before(since.Add(-time.Hour)) {
			continue
		}
		stamp := firstStamp.Add(time.Duration(i) * (time.Hour + time.Millisecond + 7))
		ts := unix.NsecToTimespec(stamp.UnixNano())
		err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && err != unix.EACCES {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// diffTrees describes the differences between got and want. Times from before start must be equal.
// Later times need not be equal, but later on both sides.
func diffTrees(want, got map[string]*entry, start time.Time) (diffs []string) {
	names := slices.Sorted(maps.Keys(want))
	for name := range got {
		if want[name] == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		add := func(format string, a ...any) {
			diffs = append(diffs, fmt.Sprintf("tree %q ", name)+fmt.Sprintf(format, a...))
		}
		w, g := want[name], got[name]
		switch {
		case g == nil:
			add("is missing")
			continue
		case w == nil:
			add("is too many")
			continue
		}
		diffEntry(w, g, start, add)
	}
	return diffs
}

func diffEntry(w, g *entry, start time.Time, add func(string, ...any)) {
	if a, b := w.stat.Mode&syscall.S_IFMT, g.stat.Mode&syscall.S_IFMT; a != b {
		add("type %#o, nfsrdma %#o", a, b)
		return
	}
	if a, b := w.stat.Mode&0o7777, g.stat.Mode&0o7777; a != b {
		add("mode %04o, nfsrdma %04o", a, b)
	}
	if w.stat.Uid != g.stat.Uid || w.stat.Gid != g.stat.Gid {
		add("owner %d:%d, nfsrdma %d:%d", w.stat.Uid, w.stat.Gid, g.stat.Uid, g.stat.Gid)
	}
	if w.stat.Mode&syscall.S_IFMT != syscall.S_IFDIR && w.stat.Size != g.stat.Size {
		add("size %d, nfsrdma %d", w.stat.Size, g.stat.Size)
	} else if w.content != g.content {
		add("content %q, nfsrdma %q", w.content, g.content)
	}
	if w.stat.Nlink != g.stat.Nlink {
		add("links %d, nfsrdma %d", w.stat.Nlink, g.stat.Nlink)
	}
	if w.group != g.group {
		add("same file as %q, nfsrdma %q", w.group, g.group)
	}
	if w.stat.Rdev != g.stat.Rdev {
		add("device %x, nfsrdma %x", w.stat.Rdev, g.stat.Rdev)
	}
	a, b := age(w.stat.Mtim, start), age(g.stat.Mtim, start)
	if a != b {
		add("mtime %s, nfsrdma %s", a, b)
	}
}

// age formats a time from before start, and returns "now" for a later one.
func age(ts syscall.Timespec, start time.Time) string {
	at := time.Unix(ts.Unix()).UTC()
	if at.Before(start.Add(-time.Hour)) {
		return at.Format(time.RFC3339Nano)
	}
	return "now"
}

// slack is the permitted difference in bytes between the space of two files with holes: file
// systems allocate in pieces of different sizes.
const slack = 256 << 10

// diffChecks compares the properties named by a case's checks.
func diffChecks(checks []check, want, got map[string]*entry, start time.Time) (diffs []string) {
	for _, c := range checks {
		path := strings.NewReplacer("@", "tree", "%", "scratch").Replace(c.path)
		w, g := want[path], got[path]
		if w == nil || g == nil {
			diffs = append(diffs, fmt.Sprintf("check %s %s: is not there", c.what, c.path))
			continue
		}
		switch c.what {
		case "atime":
			if a, b := age(w.stat.Atim, start), age(g.stat.Atim, start); a != b {
				diffs = append(diffs, fmt.Sprintf("tree %q atime %s, nfsrdma %s", path, a, b))
			}
		case "holes":
			if a, b := w.stat.Blocks*512, g.stat.Blocks*512; max(a-b, b-a) > slack {
				diffs = append(diffs, fmt.Sprintf("tree %q takes %d, nfsrdma %d", path, a, b))
			}
		}
	}
	return diffs
}
