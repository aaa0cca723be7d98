// A mount in the background: a child process with the same program, awaited until it reports that
// the mount works.

package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
)

// ReadyFD is the descriptor of the pipe on which the background process reports.
const ReadyFD = 3

// Background starts this program with other arguments and returns when it reports that the mount
// works. Its errors go to this process's standard error; its exit status is in the returned
// ExitError. If ctx ends, the child is killed.
//
// Until then the child stays in this process group. At a systemd automount point the kernel lets
// only that group access the directory; all other processes wait for the mount.
func Background(ctx context.Context, args []string, stderr *os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	report, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer report.Close()
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "nfsrdma"
	cmd.Env = append(os.Environ(), child.Env)
	cmd.Dir = "/" // no working directory keeps a file system busy
	cmd.Stderr = stderr
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	ended := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer ended()
	if n, _ := report.Read(make([]byte, 1)); n == 1 {
		return cmd.Process.Release()
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit) && exit.Exited():
		return cli.ExitError(exit.ExitCode())
	case err == nil:
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("the mount process ended before the mount worked: %w", err)
}

// ReportReady reports through the pipe at fd that the mount works, which ends the wait in
// Background. It leaves the terminal and starts a new session.
func ReportReady(fd int, log *Log) {
	log.Detach()
	// Setsid fails only for process-group leaders, which Background's children are not
	_, _ = syscall.Setsid()
	f := os.NewFile(uintptr(fd), "ready")
	_, _ = f.Write([]byte{1})
	f.Close()
}
