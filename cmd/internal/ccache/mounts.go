// FUSE file systems, which can claim any owner for their files.

package ccache

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// With user_allow_other in /etc/fuse.conf any user can mount a FUSE file system on a file of theirs
// in /tmp, and let root see it. Its files can claim any owner, and a request to it can block
// forever. So a FUSE file system counts only if root or the caches' user has mounted it. The check
// by path sends no request to the file system. The check on the open file decides, because the path
// can lead elsewhere by then.

// statNow returns the attributes that the kernel has, without a request to a FUSE file system. It
// does not follow a link in the last component.
func statNow(dirfd int, path string) (st unix.Statx_t, err error) {
	err = unix.Statx(dirfd, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st)
	return st, err
}

// foreignAt returns foreign's result for a path below dirfd. A path without attributes is no error
// here.
func foreignAt(dirfd int, path, name string, uid uint32) error {
	st, err := statNow(dirfd, path)
	if err != nil {
		return nil // opening the file returns the same error
	}
	return foreign(name, &st, uid)
}

// foreign returns an error for a file on a FUSE file system that another user has mounted. Device
// numbers of FUSE have major 0.
func foreign(name string, st *unix.Statx_t, uid uint32) error {
	if st.Dev_major != 0 {
		return nil // on a block device, which only root mounts
	}
	if by, found := mountedBy(st.Dev_major, st.Dev_minor); found && !safeFuse(by, found, uid) {
		return mountedError(name, by)
	}
	return nil
}

func mountedError(name string, by uint32) error {
	return fmt.Errorf("%s: not read: its file system is FUSE, mounted by uid %d, and can claim any owner", name, by)
}

// mountedSafely returns an error for an open file on a FUSE file system that another user has
// mounted, or that is unmounted now.
func mountedSafely(f *os.File, uid uint32) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil || s.Type != unix.FUSE_SUPER_MAGIC {
		return err
	}
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
		return err
	}
	if by, found := mountedBy(st.Dev_major, st.Dev_minor); !safeFuse(by, found, uid) {
		return mountedError(f.Name(), by)
	}
	return nil
}

// safeFuse reports whether a user's caches may be on a FUSE file system. found is false if the file
// system is unmounted now.
func safeFuse(by uint32, found bool, uid uint32) bool { return found && (by == 0 || by == uid) }

// mountedBy returns the user that has mounted the FUSE file system with a device number.
func mountedBy(major, minor uint32) (uid uint32, found bool) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, false
	}
	return fuseUser(string(b), strconv.Itoa(int(major))+":"+strconv.Itoa(int(minor)))
}

// fuseUser finds a device number, "0:52", among the FUSE file systems in mountinfo
// (proc_pid_mountinfo(5)), and returns its option user_id.
func fuseUser(mountinfo, device string) (uid uint32, found bool) {
	for line := range strings.Lines(mountinfo) {
		mount, super, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, about := strings.Fields(mount), strings.Fields(super)
		if len(fields) < 3 || fields[2] != device || len(about) < 3 {
			continue
		}
		if kind, _, _ := strings.Cut(about[0], "."); kind != "fuse" && kind != "fuseblk" {
			continue
		}
		for option := range strings.SplitSeq(about[2], ",") {
			if value, ok := strings.CutPrefix(option, "user_id="); ok {
				n, err := strconv.ParseUint(value, 10, 32)
				return uint32(n), err == nil
			}
		}
	}
	return 0, false
}
