// Programs that wait for each other's locks.

package mount

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// lockerWorker locks bytes in a file, and waits for each if necessary. It reads a byte's number
// from each line, and reports the outcome.
func lockerWorker(args []string) error {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
		if _, err := fmt.Sscan(lines.Text(), &lock.Start); err != nil {
			return err
		}
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &lock)
		}
		if err == nil {
			fmt.Println("locked")
		} else {
			fmt.Println(err)
		}
	}
	return nil
}

// A lockerProcess is a running lockerWorker.
type lockerProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startLocker(t *testing.T, path string) *lockerProcess {
	t.Helper()
	return startLockerBy(t, workerCmd(t.Context(), "locker", path))
}

// startLockerBy starts a process that answers lines as a lockerWorker does.
func startLockerBy(t *testing.T, cmd *exec.Cmd) *lockerProcess {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &lockerProcess{t, cmd, in, bufio.NewScanner(out)}
}

func (p *lockerProcess) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *lockerProcess) lock(at int) { fmt.Fprintln(p.in, at) }

// want waits for the next answer.
func (p *lockerProcess) want(answer string) {
	p.t.Helper()
	if !p.out.Scan() || p.out.Text() != answer {
		p.t.Fatalf("a program says %q, %v, want %q", p.out.Text(), p.out.Err(), answer)
	}
}

// TestProgramsThatWaitForEachOther: of two programs on a mount that wait for each other, the second
// gets the error. This holds, too, if the server cannot call waiters, and so has none in its queue.
// The first has all locks after the second has ended.
func TestProgramsThatWaitForEachOther(t *testing.T) {
	needMounts(t)
	s := startServer(t)
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			dir := mountAs(t, nil, "127.0.0.1", s.options(proto), "/export")
			path := filepath.Join(dir, "waits-"+proto)
			must.Succeed(t, os.WriteFile(path, nil, 0o644))
			first, second := startLocker(t, path), startLocker(t, path)
			first.lock(0)
			first.want("locked")
			second.lock(1)
			second.want("locked")
			before := figures(t, dir).Calls["NLM_LOCK"].Count
			first.lock(1)
			waitFor(t, "the first waits", func() bool { return figures(t, dir).Calls["NLM_LOCK"].Count >= before+2 })
			second.lock(0)
			second.want("resource deadlock avoided")
			second.signal(os.Kill)
			first.want("locked")
			first.signal(os.Kill)
		})
	}
}
