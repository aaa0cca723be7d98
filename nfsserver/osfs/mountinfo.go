// /proc/self/mountinfo: which file systems are mounted where.

package osfs

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A mountEntry is a line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mountEntry struct {
	id      int
	device  uint64 // of the file system, as in st_dev, unless that is of a subvolume
	point   string // the path of the mount point, as this process sees it
	fstype  string
	source  string
	options string // of the file system
}

// readMounts returns all mounts in the order they were made.
func readMounts() (all []mountEntry, err error) {
	fd, err := openHere(unix.AT_FDCWD, "/proc/self/mountinfo", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "mountinfo")
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		// id parent major:minor root point options [tag...] - fstype source superoptions
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		if id, err := strconv.Atoi(l[0]); err == nil {
			major, minor, _ := strings.Cut(l[2], ":")
			hi, _ := strconv.ParseUint(major, 10, 32)
			lo, _ := strconv.ParseUint(minor, 10, 32)
			all = append(all, mountEntry{id, unix.Mkdev(uint32(hi), uint32(lo)), unescapeMount(l[4]), r[0], unescapeMount(r[1]), unescapeMount(r[2])})
		}
	}
	return all, nil
}

// unescapeMount undoes the escapes \040 and so on of blanks, newlines and backslashes.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// mountID is the number, in mountinfo, of the mount that fd was opened in. It is
// given again once that mount is gone.
func mountID(fd int) (int, error) {
	var sx unix.Statx_t
	if err := again(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &sx) }); err != nil {
		return -1, err
	}
	if sx.Mask&unix.STATX_MNT_ID == 0 {
		return -1, unix.ENOSYS // Linux before 5.8
	}
	return int(sx.Mnt_id), nil
}
