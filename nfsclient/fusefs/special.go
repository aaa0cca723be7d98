// FIFOs, sockets and devices of a mount for all users: rights that the kernel does not check.
//
// The kernel opens these objects itself without a request. It checks rights only with
// default_permissions. Devices cannot be opened on such a mount (nodev). A walk to a FIFO or a
// socket causes a LOOKUP each time, and the server checks the rights there. A walk by a system call
// that does not use the object, such as stat(2) or unlink(2), needs no rights. /proc shows the
// system call. If /proc cannot show it, for a thread in another PID namespace or to an unprivileged
// mount, the walk needs all rights.

package fusefs

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// byKernel reports whether the kernel opens n without a request and without a check.
func (f *fileSystem) byKernel(attr *nfs3.Fattr) bool {
	return f.opt.AllowOther && !f.opt.DefaultPermissions && (attr.Type == nfs3.TypeFIFO || attr.Type == nfs3.TypeSock)
}

// mayUse returns EACCES if the caller's system call uses a FIFO or socket without the right to it.
func (r *request) mayUse(n *node) error {
	attr, _ := n.snapshot()
	if !r.fs.byKernel(&attr) {
		return nil
	}
	all := uint32(nfs3.AccessModify)
	if attr.Type == nfs3.TypeFIFO {
		all |= nfs3.AccessRead
	}
	err := r.may(n, all)
	if !errors.Is(err, syscall.EACCES) {
		return err
	}
	want := usedRights(r.pid) & all
	if want == 0 {
		return nil
	}
	return r.may(n, want)
}

// usedRights returns the rights that a thread's system call needs for the object of its path.
func usedRights(pid uint32) uint32 {
	const all = nfs3.AccessRead | nfs3.AccessModify
	nr, args, ok := systemCall(pid)
	switch {
	case !ok:
		return all
	case nr == unix.SYS_OPENAT && args[2]&unix.O_PATH == 0:
		return openRights(openFlags(args[2])) & all
	case nr == sysOpen && args[1]&unix.O_PATH == 0:
		return openRights(openFlags(args[1])) & all
	case slices.Contains(pathCalls, nr) || slices.Contains(oldPathCalls, nr):
		return 0
	}
	return all // an O_PATH descriptor can be opened without another walk
}

// openFlags returns a program's flags without fmodeExec, which only the kernel sets and which it
// ignores here.
func openFlags(arg uint64) uint32 { return uint32(arg) &^ fmodeExec }

// pathCalls are 64-bit system calls with a path that neither open nor connect.
var pathCalls = []int{
	unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT,
	unix.SYS_SYMLINKAT, unix.SYS_MKNODAT, unix.SYS_MKDIRAT, unix.SYS_READLINKAT, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT,
	unix.SYS_UTIMENSAT, unix.SYS_TRUNCATE, unix.SYS_STATFS, unix.SYS_BIND, unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_SETXATTR,
	unix.SYS_LSETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
}

// Polls of a thread about to sleep, and the pause between them.
const (
	callPolls = 100
	callPause = 100 * time.Microsecond
)

// systemCall returns a waiting thread's system call from /proc/PID/syscall: its number and
// arguments.
func systemCall(pid uint32) (nr int, args [6]uint64, ok bool) {
	if pid == 0 {
		return 0, args, false
	}
	for range callPolls {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/syscall")
		if err != nil {
			return 0, args, false
		}
		words := bytes.Fields(text)
		if len(words) < 3+len(args) {
			time.Sleep(callPause) // "running"
			continue
		}
		// A 32-bit program has its stack below 4 GiB and other system call numbers. An io_uring
		// worker has no stack here, but shows the registers of the system call that made it.
		if sp, err := strconv.ParseUint(string(words[1+len(args)]), 0, 64); err != nil || sp < 1<<32 {
			return 0, args, false
		}
		if nr, err = strconv.Atoi(string(words[0])); err != nil {
			return 0, args, false
		}
		for i := range args {
			if args[i], err = strconv.ParseUint(string(words[1+i]), 0, 64); err != nil {
				return 0, args, false
			}
		}
		return nr, args, true
	}
	return 0, args, false
}
