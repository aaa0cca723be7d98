// Mounting and unmounting: by mount(2) with the right to it, else by fusermount3.

package fuseloop

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Mount mounts fs on dir and returns the Server. The caller must call Serve at once, because
// programs that look at dir wait. With DirectMountStrict it uses mount(2), which needs root;
// otherwise fusermount3.
func Mount(fs fuse.RawFileSystem, dir string, opts *fuse.MountOptions) (*Server, error) {
	var fd int
	var err error
	if opts.DirectMountStrict {
		fd, err = mountDirect(dir, opts)
	} else {
		fd, err = mountByHelper(dir, opts)
	}
	if err != nil {
		return nil, err
	}
	s, err := newServer(fd, fs, opts)
	if err != nil {
		return nil, err // newServer closed the descriptor, which aborts the mount
	}
	s.dir, s.direct = dir, opts.DirectMountStrict
	return s, nil
}

// maxWrite returns the largest READ or WRITE in bytes, within the kernel's own bound.
func maxWrite(opts *fuse.MountOptions) int {
	const pagesDefault = 256
	pages := pagesDefault
	if text, err := os.ReadFile("/proc/sys/fs/fuse/max_pages_limit"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			pages = n
		}
	}
	return min(opts.MaxWrite, pages*os.Getpagesize())
}

// flagWords are options with bits in mount(2): bits to set, and bits to clear.
var flagWords = map[string]struct{ set, clear uintptr }{
	"nodev": {set: unix.MS_NODEV}, "dev": {clear: unix.MS_NODEV},
	"nosuid": {set: unix.MS_NOSUID}, "suid": {clear: unix.MS_NOSUID},
	"noexec": {set: unix.MS_NOEXEC}, "exec": {clear: unix.MS_NOEXEC},
}

// mountDirect mounts by mount(2).
func mountDirect(dir string, opts *fuse.MountOptions) (fd int, err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return -1, err
	}
	if fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	flags := opts.DirectMountFlags
	words := []string{
		fmt.Sprintf("fd=%d", fd), fmt.Sprintf("rootmode=%o", st.Mode&unix.S_IFMT),
		fmt.Sprintf("user_id=%d", os.Geteuid()), fmt.Sprintf("group_id=%d", os.Getegid()), fmt.Sprintf("max_read=%d", maxWrite(opts)),
	}
	for _, w := range opts.Options {
		if f, ok := flagWords[w]; ok {
			flags = flags&^f.clear | f.set
		} else {
			words = append(words, w)
		}
	}
	if opts.AllowOther {
		words = append(words, "allow_other")
	}
	if err := unix.Mount(opts.FsName, dir, "fuse."+opts.Name, flags, strings.Join(words, ",")); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Unmount detaches an unused mount. Serve returns soon after Unmount.
func (s *Server) Unmount() (err error) {
	pause := unmountPause
	// Retry, because the kernel releases files only after the programs' close(2) has returned.
	for range unmountTries {
		if s.direct {
			err = unix.Unmount(s.dir, 0)
		} else {
			err = unmountByHelper(s.dir)
		}
		if err == nil {
			return nil
		}
		time.Sleep(pause)
		pause = 2*pause + unmountPause
	}
	return err
}

// Connected reports whether the kernel still has the mount: in any mount namespace, or detached and
// in use.
func (s *Server) Connected() bool { return s.dev.connected() }

// logTo returns the logger for messages outside of requests.
func logTo(opts *fuse.MountOptions) *log.Logger {
	if opts.Logger != nil {
		return opts.Logger
	}
	return log.Default()
}
