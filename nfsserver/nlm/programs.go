// Locks of this machine's other programs, as the kernel lists them: held and waited for.

package nlm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// An inode identifies a file as the kernel lists it.
type inode struct {
	major, minor uint32
	number       uint64
}

// A programLock is a lock held or awaited by a process.
type programLock struct {
	pid       int
	inode     inode
	exclusive bool
	span
}

// programs are the fcntl(2) locks held and awaited by local processes. The kernel lists locks of
// open file descriptions, including ours, without a process. So the waits of their holders are
// invisible.
type programs struct{ held, waits []programLock }

const (
	kernelLocks = "/proc/locks"
	mostListed  = 256 << 10 // bytes read of it; a lock takes about 60
)

// listPrograms reads the kernel's list; nil if that fails.
func listPrograms() *programs {
	f, err := os.Open(kernelLocks)
	if err != nil {
		return nil
	}
	defer f.Close()
	return parsePrograms(io.LimitReader(f, mostListed))
}

// parsePrograms reads all lines of r, and skips lines of other kinds of locks.
func parsePrograms(r io.Reader) *programs {
	p := &programs{}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if l, waits, ok := parseProgram(lines.Text()); ok && waits {
			p.waits = append(p.waits, l)
		} else if ok {
			p.held = append(p.held, l)
		}
	}
	return p
}

// parseProgram reads one line (proc_locks(5)): "1: POSIX ADVISORY WRITE 1234 08:01:5678 0 EOF". A
// waiting request has "->" before POSIX.
func parseProgram(line string) (l programLock, waits, ok bool) {
	f := strings.Fields(line)
	if len(f) > 1 && f[1] == "->" {
		waits, f = true, append(f[:1], f[2:]...)
	}
	if len(f) != 8 || f[1] != "POSIX" {
		return l, false, false
	}
	l.exclusive = f[3] == "WRITE"
	var err, err2, err3 error
	l.pid, err = strconv.Atoi(f[4])
	l.start, err2 = strconv.ParseUint(f[6], 10, 63)
	if l.end = lastByte; f[7] != "EOF" {
		l.end, err3 = strconv.ParseUint(f[7], 10, 63)
	}
	n, _ := fmt.Sscanf(f[5], "%x:%x:%d", &l.inode.major, &l.inode.minor, &l.inode.number)
	return l, waits, err == nil && err2 == nil && err3 == nil && n == 3 && l.pid > 0
}

// inodeOf returns the file locked by k; the zero value if it is unknown.
func inodeOf(k nfsserver.LocalLocks) (i inode) {
	if k != nil {
		if major, minor, number, err := k.Inode(); err == nil {
			i = inode{major, minor, number}
		}
	}
	return i
}
