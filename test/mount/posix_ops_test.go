// The statements of the cases in testdata/posix.txt: a word for each system call.

package mount

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The ordinary users of the cases, and a group.
const (
	userID  = 4242
	otherID = 4343
	groupID = 4444
)

// A posixRun is one case being run in its own directory. It runs on one thread, whose file system
// identity its statements change.
type posixRun struct{ dir string }

// statements are the statements in a case, with the number of words after each.
var statements = map[string]struct {
	least, most int
	do          func(r *posixRun, a []string) error
}{
	"as":      {1, 1, func(_ *posixRun, a []string) error { return become(a[0]) }},
	"mkdir":   {1, 2, func(r *posixRun, a []string) error { return unix.Mkdir(r.path(a[0]), mode(a, 1, 0o755)) }},
	"file":    {1, 3, (*posixRun).file},
	"symlink": {2, 2, func(r *posixRun, a []string) error { return unix.Symlink(expand(a[0]), r.path(a[1])) }},
	"link":    {2, 2, func(r *posixRun, a []string) error { return unix.Link(r.path(a[0]), r.path(a[1])) }},
	"linkf": {2, 2, func(r *posixRun, a []string) error {
		return unix.Linkat(unix.AT_FDCWD, r.path(a[0]), unix.AT_FDCWD, r.path(a[1]), unix.AT_SYMLINK_FOLLOW)
	}},
	"mknod":  {2, 3, (*posixRun).mknod},
	"rename": {2, 2, func(r *posixRun, a []string) error { return unix.Rename(r.path(a[0]), r.path(a[1])) }},
	"renamenew": {2, 2, func(r *posixRun, a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, r.path(a[0]), unix.AT_FDCWD, r.path(a[1]), unix.RENAME_NOREPLACE)
	}},
	"rmdir":    {1, 1, func(r *posixRun, a []string) error { return unix.Rmdir(r.path(a[0])) }},
	"unlink":   {1, 1, func(r *posixRun, a []string) error { return unix.Unlink(r.path(a[0])) }},
	"chmod":    {2, 2, func(r *posixRun, a []string) error { return unix.Chmod(r.path(a[0]), mode(a, 1, 0)) }},
	"chown":    {3, 3, func(r *posixRun, a []string) error { return unix.Chown(r.path(a[0]), number(a[1]), number(a[2])) }},
	"lchown":   {3, 3, func(r *posixRun, a []string) error { return unix.Lchown(r.path(a[0]), number(a[1]), number(a[2])) }},
	"truncate": {2, 2, func(r *posixRun, a []string) error { return unix.Truncate(r.path(a[0]), int64(number(a[1]))) }},
	"utimens":  {3, 4, (*posixRun).utimens},
	"open":     {2, 3, (*posixRun).open},
	"write":    {2, 2, (*posixRun).write},
	"read":     {1, 1, (*posixRun).read},
	"ftruncate": {2, 3, func(r *posixRun, a []string) error {
		return r.with(a[0], flags(append(a, "RDWR")[2]), func(fd int) error { return unix.Ftruncate(fd, int64(number(a[1]))) })
	}},
	"fchmod": {2, 2, func(r *posixRun, a []string) error {
		return r.with(a[0], unix.O_RDONLY, func(fd int) error { return unix.Fchmod(fd, mode(a, 1, 0)) })
	}},
	"fchown": {3, 3, func(r *posixRun, a []string) error {
		return r.with(a[0], unix.O_RDONLY, func(fd int) error { return unix.Fchown(fd, number(a[1]), number(a[2])) })
	}},
	"readlink": {2, 2, (*posixRun).readlink},
	"access":   {2, 2, func(r *posixRun, a []string) error { return unix.Access(r.path(a[0]), uint32(number(a[1]))) }},
	"stat": {1, 1, func(r *posixRun, a []string) error {
		var st unix.Stat_t
		return unix.Stat(r.path(a[0]), &st)
	}},
	"list": {2, 2, (*posixRun).list},
	// openunlink reads and writes a file whose name is gone.
	"openunlink":  {1, 1, (*posixRun).openUnlink},
	"openrename":  {2, 2, (*posixRun).openRename},
	"rmdirunlink": {2, 2, (*posixRun).rmdirWithOpen},
}

// path returns a path below the case's directory; "." and paths that begin with "/" are as they
// are.
func (r *posixRun) path(p string) string {
	p = expand(p)
	if p == "" || p[0] == '/' {
		return p
	}
	return r.dir + "/" + p
}

// expand replaces {N} by N letters, {N/} by N bytes of components, and "" by nothing.
func expand(p string) string {
	for {
		before, rest, ok := strings.Cut(p, "{")
		word, after, ok2 := strings.Cut(rest, "}")
		if !ok || !ok2 {
			return strings.NewReplacer(`""`, "", `\xff`, "\xff", `\xfe`, "\xfe").Replace(p)
		}
		if n, deep := strings.CutSuffix(word, "/"); deep {
			word = strings.Repeat("n/", number(n)/2)
		} else {
			word = strings.Repeat("n", number(n))
		}
		p = before + word + after
	}
}

// number reads a number, or one of the cases' names for one.
func number(s string) int {
	switch s {
	case "user":
		return userID
	case "other":
		return otherID
	case "group":
		return groupID
	case "big":
		return 1 << 33
	}
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		panic("not a number: " + s)
	}
	return int(n)
}

// mode returns the octal argument at i, or the default.
func mode(a []string, i int, def uint32) uint32 {
	if len(a) <= i {
		return def
	}
	n, err := strconv.ParseUint(a[i], 8, 32)
	if err != nil {
		panic("not a mode: " + a[i])
	}
	return uint32(n)
}

// become changes this thread's identity towards the file system. Its capabilities go with it.
func become(who string) error {
	id := map[string]int{"root": 0, "user": userID, "other": otherID}[who]
	if err := unix.Setfsgid(id); err != nil {
		return err
	}
	return unix.Setfsuid(id)
}

var openFlags = map[string]int{
	"RDONLY": unix.O_RDONLY, "WRONLY": unix.O_WRONLY, "RDWR": unix.O_RDWR, "CREAT": unix.O_CREAT, "EXCL": unix.O_EXCL,
	"TRUNC": unix.O_TRUNC, "APPEND": unix.O_APPEND, "DIRECTORY": unix.O_DIRECTORY, "NOFOLLOW": unix.O_NOFOLLOW, "NONBLOCK": unix.O_NONBLOCK,
	"PATH": unix.O_PATH,
}

// flags reads RDWR|CREAT.
func flags(s string) (f int) {
	for word := range strings.SplitSeq(s, "|") {
		n, ok := openFlags[word]
		if !ok {
			panic("not a flag: " + word)
		}
		f |= n
	}
	return f
}

// with opens a file for one call.
func (r *posixRun) with(p string, how int, do func(fd int) error) error {
	fd, err := unix.Open(r.path(p), how|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = do(fd)
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return err
}

func (r *posixRun) file(a []string) error {
	fd, err := unix.Open(r.path(a[0]), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, mode(a, 1, 0o644))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if len(a) > 2 {
		_, err = unix.Write(fd, []byte(strings.Repeat("x", number(a[2]))))
	}
	return err
}

func (r *posixRun) mknod(a []string) error {
	kind := map[string]uint32{"fifo": unix.S_IFIFO, "sock": unix.S_IFSOCK, "chr": unix.S_IFCHR, "blk": unix.S_IFBLK, "reg": unix.S_IFREG}[a[1]]
	return unix.Mknod(r.path(a[0]), kind|mode(a, 2, 0o644), int(unix.Mkdev(1, 3)))
}

func (r *posixRun) open(a []string) error {
	fd, err := unix.Open(r.path(a[0]), flags(a[1])|unix.O_CLOEXEC, mode(a, 2, 0o644))
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

func (r *posixRun) write(a []string) error {
	return r.with(a[0], unix.O_WRONLY, func(fd int) error {
		_, err := unix.Write(fd, []byte(a[1]))
		return err
	})
}

func (r *posixRun) read(a []string) error {
	return r.with(a[0], unix.O_RDONLY, func(fd int) error {
		_, err := unix.Read(fd, make([]byte, 10))
		return err
	})
}

// utimens sets times: seconds, now or omit, and with "nofollow" those of a link itself.
func (r *posixRun) utimens(a []string) error {
	spec := func(s string) unix.Timespec {
		switch s {
		case "now":
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		case "omit":
			return unix.Timespec{Nsec: unix.UTIME_OMIT}
		}
		sec, nsec, _ := strings.Cut(s, ".")
		return unix.Timespec{Sec: int64(number(sec)), Nsec: int64(number(strings.TrimLeft(nsec, "0")))}
	}
	how := 0
	if len(a) > 3 {
		how = unix.AT_SYMLINK_NOFOLLOW
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, r.path(a[0]), []unix.Timespec{spec(a[1]), spec(a[2])}, how)
}

func (r *posixRun) readlink(a []string) error {
	b := make([]byte, 5000)
	n, err := unix.Readlink(r.path(a[0]), b)
	if err == nil && string(b[:n]) != expand(a[1]) {
		err = fmt.Errorf("it is %q", b[:n])
	}
	return err
}

// list compares the names of a directory, sorted, with a list with commas between.
func (r *posixRun) list(a []string) error {
	names, err := readNames(r.path(a[0]))
	if err == nil && strings.Join(names, ",") != a[1] {
		err = fmt.Errorf("there is %q", names)
	}
	return err
}

func (r *posixRun) openUnlink(a []string) error {
	return r.with(a[0], unix.O_RDWR, func(fd int) error {
		if err := unix.Unlink(r.path(a[0])); err != nil {
			return err
		}
		return readBack(fd)
	})
}

// openRename renames a file over an open one, then uses the open one.
func (r *posixRun) openRename(a []string) error {
	return r.with(a[1], unix.O_RDWR, func(fd int) error {
		if err := unix.Rename(r.path(a[0]), r.path(a[1])); err != nil {
			return err
		}
		return readBack(fd)
	})
}

// rmdirWithOpen removes the last file of a directory while it is open, then the directory.
func (r *posixRun) rmdirWithOpen(a []string) error {
	err := r.with(a[0], unix.O_RDWR, func(int) error { return unix.Unlink(r.path(a[0])) })
	if err != nil {
		return err
	}
	return unix.Rmdir(r.path(a[1]))
}

// readBack writes and reads through a descriptor.
func readBack(fd int) error {
	if _, err := unix.Pwrite(fd, []byte("still here"), 100); err != nil {
		return err
	}
	b := make([]byte, 10)
	if _, err := unix.Pread(fd, b, 100); err != nil || string(b) != "still here" {
		return fmt.Errorf("read %q: %v", b, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != 110 {
		return fmt.Errorf("size %d: %v", st.Size, err)
	}
	return nil
}

// errName returns the symbol for an error, "OK" for none, or its text.
func errName(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "OK"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}
