// The mount in the background: this program again, which is waited for until it reports that the mount works.

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

// ReadyFD is the descriptor of the pipe that the background process reports on.
const ReadyFD = 3

// Background starts this program with other arguments, and returns when it reports
// that the mount works. Its errors go to this process's standard error, its exit
// status is that of the ExitError that is returned. If ctx ends it is ended too.
//
// Until then it stays in this process group: at an automount point of systemd the kernel lets
// that group alone through to the directory, and has all others wait for the mount.
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
	cmd.Dir = "/" // the mount is in no directory's way
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

// ReportReady tells the process that waits in Background that the mount works, by the
// pipe at fd, and leaves its terminal, for a session of its own.
func ReportReady(fd int, log *Log) {
	log.Detach()
	_, _ = syscall.Setsid() // fails in a process that leads a group, as none is that Background has started
	f := os.NewFile(uintptr(fd), "ready")
	_, _ = f.Write([]byte{1})
	f.Close()
}
