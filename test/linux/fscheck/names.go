// Checks of names: renames, hard and symbolic links, unusual and long names, deep paths, unlinking
// open files, exclusive creation, large directories.

package fscheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

func rename(e Env) error {
	a, b := e.path("a"), e.path("b")
	if err := errors.Join(put(a, []byte("A")), put(b, []byte("B"))); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return err
	}
	if err := wants("the old name", statErr(a), os.ErrNotExist); err != nil {
		return err
	}
	if err := holds(b, []byte("A")); err != nil {
		return err
	}
	full, empty := e.path("full"), e.path("empty")
	if err := errors.Join(os.Mkdir(full, 0o755), os.Mkdir(empty, 0o755), put(filepath.Join(full, "x"), nil)); err != nil {
		return err
	}
	if err := errors.Join(
		wants("directory over a full one", syscall.Rename(empty, full), syscall.ENOTEMPTY),
		wants("directory over a file", syscall.Rename(empty, b), syscall.ENOTDIR),
		wants("file over a directory", syscall.Rename(b, empty), syscall.EISDIR),
		wants("nothing", syscall.Rename(e.path("none"), b), syscall.ENOENT),
		wants("into itself", syscall.Rename(full, filepath.Join(full, "in")), syscall.EINVAL),
	); err != nil {
		return err
	}
	if err := syscall.Rename(full, empty); err != nil { // os.Rename would make no system call
		return fmt.Errorf("directory over an empty one: %w", err)
	}
	if err := os.Rename(b, filepath.Join(empty, "moved")); err != nil {
		return err
	}
	return holds(filepath.Join(empty, "moved"), []byte("A"))
}

func statErr(path string) error { _, err := os.Lstat(path); return err }

func hardLinks(e Env) error {
	if err := put(e.path("a"), []byte("one")); err != nil {
		return err
	}
	for i := range 5 {
		if err := os.Link(e.path("a"), e.path(fmt.Sprint(i))); err != nil {
			return err
		}
	}
	if err := wants("a name that is taken", os.Link(e.path("a"), e.path("1")), os.ErrExist); err != nil {
		return err
	}
	var a, b syscall.Stat_t
	if err := errors.Join(syscall.Stat(e.path("a"), &a), syscall.Stat(e.path("4"), &b)); err != nil {
		return err
	}
	if a.Ino != b.Ino || a.Nlink != 6 {
		return fmt.Errorf("inodes %d and %d, %d links", a.Ino, b.Ino, a.Nlink)
	}
	if err := errors.Join(os.Remove(e.path("a")), put(e.path("3"), []byte("two")), e.Forget()); err != nil {
		return err
	}
	return holds(e.path("0"), []byte("two"))
}

func symlinks(e Env) error {
	lengths := []int{1, 3, 4, 5, 100, 999, 1000, 1001, 1023, 1024, 1025, 2000, 3001, 4000}
	target := func(n int) string { return strings.Repeat("0123456789", 400)[:n] }
	for _, n := range lengths {
		if err := os.Symlink(target(n), e.path(fmt.Sprint(n))); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	if err := e.Forget(); err != nil {
		return err
	}
	for _, n := range lengths {
		got, err := os.Readlink(e.path(fmt.Sprint(n)))
		if err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		if err := same(fmt.Sprintf("the link of %d bytes", n), []byte(got), []byte(target(n))); err != nil {
			return err
		}
		if st, err := os.Lstat(e.path(fmt.Sprint(n))); err != nil || st.Size() != int64(n) {
			return fmt.Errorf("the link of %d bytes: %v, %v", n, st, err)
		}
	}
	if err := errors.Join(put(e.path("file"), []byte("there")), os.Symlink("file", e.path("to"))); err != nil {
		return err
	}
	return holds(e.path("to"), []byte("there"))
}

func names(e Env) error {
	odd := []string{
		strings.Repeat("n", 255), "Grüße", "日本語のファイル", "emoji-🐧", "with space", "new\nline", "back\\slash",
		"quote'\"", "-rf", "...", "\x01\x7f", "\xff\xfe not UTF-8", "*?[", strings.Repeat("ü", 127),
	}
	for _, name := range odd {
		if err := put(e.path(name), []byte(name)); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	if err := e.Forget(); err != nil {
		return err
	}
	list, err := os.ReadDir(e.Dir)
	if err != nil {
		return err
	}
	var got []string
	for _, d := range list {
		got = append(got, d.Name())
	}
	slices.Sort(odd)
	slices.Sort(got)
	if !slices.Equal(got, odd) {
		return fmt.Errorf("the directory lists %q", got)
	}
	for _, name := range odd {
		if err := holds(e.path(name), []byte(name)); err != nil {
			return err
		}
	}
	return wants("256 bytes", put(e.path(strings.Repeat("n", 256)), nil), syscall.ENAMETOOLONG)
}

func deep(e Env) error {
	dir := e.Dir
	for i := range 45 {
		dir = filepath.Join(dir, fmt.Sprintf("level-%02d-%s", i, strings.Repeat("x", 40)))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := errors.Join(put(filepath.Join(dir, "f"), []byte("deep")), e.Forget()); err != nil {
		return err
	}
	if err := holds(filepath.Join(dir, "f"), []byte("deep")); err != nil {
		return err
	}
	return os.RemoveAll(e.Dir)
}

// unlinkOpen checks that a removed file stays usable while it is open: the client renames the file
// until the file is closed.
func unlinkOpen(e Env) error {
	f, err := os.Create(e.path("f"))
	if err != nil {
		return err
	}
	defer f.Close()
	want := data(50_000, 11)
	if _, err := f.Write(want); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(e.path("f")), wants("the name", statErr(e.path("f")), os.ErrNotExist)); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), e.Forget()); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil {
		return err
	}
	if err := same("the unlinked file", got, want); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	list, err := os.ReadDir(e.Dir)
	if err != nil || len(list) != 0 {
		return fmt.Errorf("left in the directory: %v, %v", list, err)
	}
	return nil
}

func exclusive(e Env) error {
	const racers = 8
	for round := range 20 {
		var won atomic.Int32
		var wg sync.WaitGroup
		errs := make([]error, racers)
		for i := range racers {
			wg.Go(func() {
				f, err := os.OpenFile(e.path(fmt.Sprint(round)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err == nil {
					won.Add(1)
					errs[i] = f.Close()
				} else {
					errs[i] = wants("a loser", err, os.ErrExist)
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil || won.Load() != 1 {
			return fmt.Errorf("round %d: %d winners, %w", round, won.Load(), err)
		}
		if st, err := os.Stat(e.path(fmt.Sprint(round))); err != nil || st.Mode().Perm() != 0o600 || st.Size() != 0 {
			return fmt.Errorf("round %d: %v, %v", round, st, err)
		}
	}
	return nil
}

func readdir(e Env) error {
	const n = 400
	for i := range n {
		f, err := os.Create(e.path(fmt.Sprintf("file-%d", i)))
		if err != nil {
			return err
		}
		f.Close()
	}
	for _, remove := range []int{0, 100} {
		for i := range remove {
			if err := os.Remove(e.path(fmt.Sprintf("file-%d", i))); err != nil {
				return err
			}
		}
		if err := e.Forget(); err != nil {
			return err
		}
		if err := CountNames(e.Dir, n-remove); err != nil {
			return err
		}
	}
	return nil
}

// CountNames checks that a directory lists n names, each once.
func CountNames(dir string, n int) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	list, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(list)
	if unique := len(slices.Compact(slices.Clone(list))); len(list) != n || unique != n {
		return fmt.Errorf("%d names, %d different ones, want %d", len(list), unique, n)
	}
	return nil
}
