// Programs that run until their standard input ends.

package machine

import (
	"io"
	"os/exec"
)

// Start starts a program and returns its standard input and output. end closes the input, which
// ends the program, and waits for it.
func Start(cmd *exec.Cmd) (in io.WriteCloser, out io.Reader, end func() error, err error) {
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	if err = cmd.Start(); err != nil {
		return nil, nil, nil, err
	}
	return in, out, func() error {
		in.Close()
		return cmd.Wait()
	}, nil
}
