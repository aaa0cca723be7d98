// Locks of other programs of this machine, as the kernel lists them: who of these waits, and for
// what.

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

// An inode is a file as the kernel lists it.
type inode struct {
	major, minor uint32
	number       uint64
}

// A programLock is a lock that a process has, or waits for.
type programLock struct {
	pid       int
	inode     inode
	exclusive bool
	span
}

// programs are the locks of fcntl(2) that processes of this machine have and wait for. Locks of
// open file descriptions, ours among them, are listed without a process: whoever has one cannot be
// seen to wait.
type programs struct{ held, waits []programLock }

const (
	kernelLocks = "/proc/locks"
	mostListed  = 256 << 10 // bytes of it that are read, of some 60 for each lock
)

// listPrograms reads them; where that cannot be done there are none.
func listPrograms() *programs {
	f, err := os.Open(kernelLocks)
	if err != nil {
		return nil
	}
	defer f.Close()
	return parsePrograms(io.LimitReader(f, mostListed))
}

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

// parseProgram reads one line (proc_locks(5)): "1: POSIX ADVISORY WRITE 1234 08:01:5678 0 EOF",
// with "->" before POSIX of who waits.
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

// inodeOf is the file whose locks these are; the zero value is none.
func inodeOf(k nfsserver.LocalLocks) (i inode) {
	if k != nil {
		if major, minor, number, err := k.Inode(); err == nil {
			i = inode{major, minor, number}
		}
	}
	return i
}
