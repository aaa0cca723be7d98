// Child processes of a command: this program again, with other arguments.

// Package child starts this program again as a separate process, so the two ends of a measurement
// share neither scheduler nor memory.
package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Env is in the environment of every child, so that a test binary can act as the program.
const Env = "NFSRDMA_CHILD=1"

// A Child is a process that serves until its standard input ends.
type Child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	Line  string // its first line of output, such as its listening address
}

// Start runs this program with other arguments and returns once the child has written its first
// line. The child is killed when ctx ends.
func Start(ctx context.Context, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Env = append(os.Environ(), Env)
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		c.Stop()
		return nil, fmt.Errorf("child process %s did not start", args[0])
	}
	c.Line = strings.TrimSpace(line)
	return c, nil
}

// Stop closes the child's standard input, waits for its exit and returns its status.
func (c *Child) Stop() error {
	c.stdin.Close()
	return c.cmd.Wait()
}

// PID returns the child's process ID.
func (c *Child) PID() int { return c.cmd.Process.Pid }
