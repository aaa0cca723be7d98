// Actors in separate processes, as fcntl locks require, and an actor that runs the commands.

package several

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// rootEnv makes a program an actor in the directory that the variable names.
const rootEnv = "NFSRDMA_SEVERAL_ROOT"

// called is set by Main. If Main was not called, a process would run this program with all its
// tests.
var called atomic.Bool

// Main runs the actor if World.Process started this program as an actor, and exits with the actor;
// otherwise Main returns. It must come first in main.
func Main() {
	root := os.Getenv(rootEnv)
	if root == "" {
		called.Store(true)
		return
	}
	if err := Serve(root, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process adds an actor in a directory, as a process with this program. World.Close ends the
// process.
func (w *World) Process(k Kind, root string) error {
	if !called.Load() {
		return errors.New("this program does not call several.Main")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), rootEnv+"="+root)
	cmd.Stderr = os.Stderr
	in, out, end, err := machine.Start(cmd)
	if err != nil {
		return err
	}
	w.Add(k, NewRemote(in, out))
	w.ends = append(w.ends, end)
	return nil
}

// Close ends the actors' processes. The error is about processes that ended otherwise.
func (w *World) Close() (err error) {
	for _, end := range w.ends {
		err = errors.Join(err, end())
	}
	return err
}

// A Commands is an actor that uses an export by nfsrdma's commands.
type Commands struct {
	Program string
	URL     string // of the export
	File    string // for the copied data
}

// Do runs a step by a command.
func (c *Commands) Do(dir string, s Step) (o Outcome, err error) {
	at := func(name string) string { return c.URL + "/" + dir + "/" + name }
	run := func(args ...string) []byte {
		out, err := exec.Command(c.Program, args...).Output()
		var exit *exec.ExitError
		switch {
		case err == nil:
		case errors.As(err, &exit) && strings.Contains(string(exit.Stderr), "No such file"):
			o.Err = "ENOENT"
		case errors.As(err, &exit):
			o.Err = fmt.Sprintf("%v: %s", err, exit.Stderr)
		default:
			o.Err = err.Error()
		}
		return out
	}
	switch s.Op {
	case Cat:
		o.Data = run("cat", at(s.Name))
	case CopyIn:
		if err := os.WriteFile(c.File, bytes.Repeat([]byte{byte(s.Val)}, int(s.N)), 0o644); err != nil {
			return o, err
		}
		run("cp", "--in-place", c.File, at(s.Name))
	case Unlink:
		run("rm", at(s.Name))
	case Rename:
		run("mv", "-T", at(s.Name), at(s.To))
	case Stat:
		out := run("stat", "-c", "%s %a %Y", at(s.Name))
		if _, err := fmt.Sscanf(string(out), "%d %o %d", &o.N, &o.Mode, &o.Time); err != nil && o.Err == "" {
			return o, err
		}
		if o.Time >= SetTimes {
			o.Time = 0
		}
	}
	return o, nil
}
