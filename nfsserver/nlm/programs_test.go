// Circles of clients and local programs that wait for each other.

package nlm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"golang.org/x/sys/unix"
)

// TestProgramsAsTheKernelListsThem: lines in the format of proc_locks(5) are parsed, and invalid
// lines are ignored.
func TestProgramsAsTheKernelListsThem(t *testing.T) {
	p := parsePrograms(strings.NewReader(`1: POSIX  ADVISORY  WRITE 1234 08:1f:5678 0 EOF
1: -> POSIX  ADVISORY  READ 4321 08:1f:5678 10 19
1:  -> POSIX  ADVISORY  WRITE 4322 08:1f:5678 10 19
2: OFDLCK ADVISORY  WRITE -1 08:1f:5678 0 EOF
3: FLOCK  ADVISORY  WRITE 77 08:1f:9 0 EOF
4: LEASE  ACTIVE    READ 77 08:1f:9 0 EOF
5: POSIX  ADVISORY  WRITE 0 08:1f:9 0 EOF
6: POSIX  ADVISORY  WRITE 5 08:1f:9 -1 EOF
7: POSIX  ADVISORY  WRITE 5 0831f9 0 EOF
8: POSIX  ADVISORY  WRITE 5
-> POSIX
`))
	disk := inode{8, 0x1f, 5678}
	if len(p.held) != 1 || p.held[0] != (programLock{1234, disk, true, span{0, lastByte}}) {
		t.Errorf("held: %+v", p.held)
	}
	must.Equal(t, "number of locks that wait", len(p.waits), 2)
	must.Equal(t, "the first that waits", p.waits[0], programLock{4321, disk, false, span{10, 19}})
	must.Equal(t, "process of the second that waits", p.waits[1].pid, 4322)
}

// A process is another local program. Locks taken by the test itself would belong to the server's
// process.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	to  io.Writer
	say *bufio.Scanner
}

const programTest = "TestProgramOfOurs"

func newProcess(t *testing.T, paths ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^" + programTest + "$", "--"}, paths...)...)
	cmd.Env = append(os.Environ(), programTest+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{t, cmd, to, bufio.NewScanner(from)}
}

// lock makes the program lock the first byte of its nth file, and wait if it must.
func (p *process) lock(n int) { fmt.Fprintln(p.to, n) }

// has waits until the program has the lock that it requested.
func (p *process) has() {
	p.t.Helper()
	if !p.say.Scan() || p.say.Text() != "locked" {
		p.t.Fatalf("the program says %q, %v", p.say.Text(), p.say.Err())
	}
}

// waits waits until the program waits for a lock.
func (p *process) waits() {
	p.t.Helper()
	must.Become(p.t, "the program waits", func() bool {
		for _, w := range listPrograms().waits {
			if w.pid == p.cmd.Process.Pid {
				return true
			}
		}
		return false
	})
}

// TestProgramOfOurs runs the program of a process.
func TestProgramOfOurs(t *testing.T) {
	if os.Getenv(programTest) == "" {
		t.Skip("is for the process that other tests start")
	}
	var files []*os.File
	for _, path := range os.Args[3:] {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatalf("os.OpenFile: %v", err)
		}
		defer f.Close()
		files = append(files, f)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var n int
		_, err := fmt.Sscan(lines.Text(), &n)
		if err == nil {
			err = unix.FcntlFlock(files[n].Fd(), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1})
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("locked")
	}
}

// TestCirclesWithPrograms: a client in a circle with a program is refused, directly or through
// another client. A client that waits for a program outside a circle is not. A program that closes
// a circle waits until the client retries.
func TestCirclesWithPrograms(t *testing.T) {
	r := plainRig(t)
	paths := []string{r.newFile("f", 0o666), r.newFile("g", 0o666), r.newFile("h", 0o666)}
	a, b := r.tcp("a", rootCred), r.rdma("b", rootCred)
	f, g, h := a.file("/disk", "f"), a.file("/disk", "g"), a.file("/disk", "h")
	p := newProcess(t, paths...)
	a.want("LOCK", a.lock(f, 1, 0, 1, true), nlm4.Granted)
	b.want("LOCK", b.lock(h, 2, 0, 1, true), nlm4.Granted)
	p.lock(1)
	p.has()
	b.want("who waits for the program", b.block(g, 2, 0, 1, true), nlm4.Blocked)
	p.lock(0)
	p.waits()
	a.want("who waits for a program that waits for it", a.block(g, 1, 0, 1, true), nlm4.Deadlock)
	a.want("who waits for a client that does", a.block(h, 1, 0, 1, true), nlm4.Deadlock)
	a.want("who has nothing that anybody waits for", a.block(g, 9, 0, 1, true), nlm4.Blocked)
	a.want("CANCEL", a.cancel(g, 9, 0, 1, true), nlm4.Granted)
	b.want("asks again", b.block(g, 2, 0, 1, true), nlm4.Blocked)
	a.want("UNLOCK", a.unlock(f, 1, 0, 0), nlm4.Granted)
	p.has()
	p.lock(2) // b has locked file 2, and waits for the program
	p.waits()
	b.want("asks again, in a circle by now", b.block(g, 2, 0, 1, true), nlm4.Deadlock)
	b.want("UNLOCK", b.unlock(h, 2, 0, 0), nlm4.Granted)
	p.has()
}
