// Workers: this test binary again, as the programs that use a mount.

package mount

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// workerEnv makes the test binary a worker: its arguments are the worker's.
const workerEnv = "NFSRDMA_MOUNT_WORKER"

// workers are the programs, by name; each gets its arguments, and prints its faults on standard
// output.
var workers = map[string]func(args []string) error{
	"posix": posixWorker, "model": modelWorker, "bytes": bytesWorker, "append": appendWorker, "appended": appendedWorker,
	"cto": ctoWorker, "writer": writerWorker, "written": writtenWorker, "fill": fillWorker, "hold": holdWorker, "touch": touchWorker, "many": manyWorker,
	"open": openWorker, "list": listWorker, "sides": sidesWorker, "locker": lockerWorker,
	"turns": turnsWorker, "locked": lockedWorker,
	"same": func(args []string) error { return sameTrees(args[0], args[1]) },
}

// runWorker runs the named worker, and returns its exit status.
func runWorker(name string) int {
	do, ok := workers[name]
	if !ok {
		fmt.Println("no worker", name)
		return 2
	}
	if err := do(os.Args[1:]); err != nil {
		fmt.Println("FAIL:", err)
		return 1
	}
	return 0
}

// workerLimit is how long a worker takes at most on a busy machine.
var workerLimit = time.Duration(scaled(10, 60)) * time.Minute

// worker runs a worker, and returns its output and how it ended.
func worker(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), workerLimit)
	defer cancel()
	cmd := workerCmd(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// mustWork runs a worker that must find nothing wrong.
func mustWork(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := worker(t, name, args...)
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, lastLines(out, 60))
	}
	return out
}

// workerCmd returns a worker that is not started yet. It is killed with the suite.
func workerCmd(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), workerEnv+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second // a worker that is stuck in the kernel keeps its output open
	return cmd
}

// lastLines returns the end of a long text.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = append([]string{"…"}, lines[len(lines)-n:]...)
	}
	return strings.Join(lines, "\n")
}
