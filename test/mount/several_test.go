// Schedules of several clients, which package several draws and checks, on mounts, the served directory, and commands.

package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/several"
)

// severalWorker does the steps that come by standard input: DIR.
func severalWorker(args []string) error { return several.Serve(args[0], os.Stdin, os.Stdout) }

// actorIn starts a process that does steps in a directory.
func actorIn(t *testing.T, dir string) several.Actor {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := workerCmd(ctx, "several", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
		cancel()
	})
	return several.NewRemote(in, out)
}

// severalOn runs schedules of some steps, each from a seed of its own.
func severalOn(t *testing.T, w *several.World, count int) {
	t.Helper()
	first, err := strconv.ParseUint(seed(t), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	const each = 60
	for done, n := 0, uint64(0); done < count; n++ {
		steps, err := w.Run(w.Random(first+n, each))
		done += steps
		if failed := shrunk(w, err); failed != nil {
			t.Fatalf("NFSRDMA_SEED=%d: %v", first+n, failed)
		}
	}
}

// shrunk is the shortest failure like the one given.
func shrunk(w *several.World, err error) error {
	var f *several.Failure
	if errors.As(err, &f) {
		return w.Shrink(f)
	}
	return err
}

// severalMatrix runs the matrix for two of the actors.
func severalMatrix(t *testing.T, w *several.World, changer, looker int) {
	t.Helper()
	for _, c := range several.Matrix(changer, looker) {
		if _, err := w.Run(c.Steps); err != nil {
			t.Errorf("%s changed by actor %d, seen by actor %d: %v", c.Name, changer, looker, shrunk(w, err))
		}
	}
}

// commands are the actor that uses an export by commands of nfsrdma.
type commands struct {
	t    *testing.T
	url  string
	file string // for what is copied
}

func (c *commands) Do(dir string, s several.Step) (o several.Outcome, err error) {
	at := func(name string) string { return c.url + "/" + dir + "/" + name }
	run := func(args ...string) string {
		out, code := nfsrdma(c.t, args...)
		switch {
		case code == 0:
		case strings.Contains(out, "No such file"):
			o.Err = "ENOENT"
		default:
			o.Err = fmt.Sprintf("status %d: %s", code, out)
		}
		return out
	}
	switch s.Op {
	case several.Cat:
		var err error
		if o.Data, err = exec.CommandContext(c.t.Context(), filepath.Join(rig.bin, "nfsrdma"), "cat", at(s.Name)).Output(); err != nil {
			o.Err = err.Error()
		}
	case several.CopyIn:
		if err := os.WriteFile(c.file, []byte(strings.Repeat(string([]byte{byte(s.Val)}), int(s.N))), 0o644); err != nil {
			return o, err
		}
		run("cp", "--in-place", c.file, at(s.Name))
	case several.Unlink:
		run("rm", at(s.Name))
	case several.Rename:
		run("mv", "-T", at(s.Name), at(s.To))
	case several.Stat:
		out := run("stat", "-c", "%s %a %Y", at(s.Name))
		if _, err := fmt.Sscanf(out, "%d %o %d", &o.N, &o.Mode, &o.Time); err != nil && o.Err == "" {
			return o, err
		}
		if o.Time >= several.SetTimes {
			o.Time = 0
		}
	}
	return o, nil
}

// severalWorld are two mounts, one with noac, the served directory if there is one, and the commands.
func severalWorld(t *testing.T, s *server, protos [2]string, export string) *several.World {
	t.Helper()
	w := several.NewWorld(filepath.Base(tempDir(t, "several")))
	for _, proto := range protos {
		w.Add(several.Kind{Name: "a mount over " + proto}, actorIn(t, s.mount(t, proto, export, "lookupcache=pos")))
	}
	if export == "/export" {
		w.Add(several.Kind{Name: "a process on the server", Local: true}, actorIn(t, s.dir))
	}
	w.Add(several.Kind{Name: "a mount over " + protos[0] + " with noac", NoCache: true}, actorIn(t, s.mount(t, protos[0], export, "noac")))
	url := map[string]string{"rdma": "nfsrdma://", "tcp": "nfs://"}[protos[1]] + s.at(protos[1]) + export
	w.Add(several.Kind{Name: "the commands", Command: true}, &commands{t: t, url: url, file: filepath.Join(tempDir(t, "local"), "file")})
	return w
}

// notYet leaves out what the mount does not keep yet: the sizes and pages of the kernel's own that are
// older than another client's change. NFSRDMA_SEVERAL=1 runs it all the same.
func notYet(t *testing.T) {
	if os.Getenv("NFSRDMA_SEVERAL") == "" {
		t.Skip("the mount does not keep all of this yet; NFSRDMA_SEVERAL=1 shows what")
	}
}

// Two mounts, a process on the server and commands see of each other what NFS promises, in
// every order of their steps. At length it is 1,000,000 steps.
func TestSeveral(t *testing.T) {
	needMounts(t)
	notYet(t)
	s := startServer(t)
	for _, export := range []string{"/export", "/memory"} {
		t.Run(export[1:], func(t *testing.T) {
			severalOn(t, severalWorld(t, s, [2]string{"rdma", "tcp"}, export), scaled(3000, 500_000))
		})
	}
}

// Each way to change a file shows in each way to see it.
func TestSeveralMatrix(t *testing.T) {
	needMounts(t)
	notYet(t)
	s := startServer(t)
	w := severalWorld(t, s, [2]string{"rdma", "tcp"}, "/export")
	for _, looker := range []int{0, 3} {
		for _, changer := range []int{1, 2} {
			severalMatrix(t, w, changer, looker)
		}
	}
}
