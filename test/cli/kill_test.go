// Copies that do not finish: interrupted, killed, out of space, or without their server.

package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// bigSize is a file's size in bytes. Its copy takes long enough to be interrupted.
const bigSize = 200 << 20

// kills is the number of interrupted copies of each kind.
const kills = 5

// tempMark is in the names that cp gives to incomplete files.
const tempMark = ".nfsrdma-"

// A killRig is a local directory, a served one, and its URL.
type killRig struct{ local, served, url string }

func newKillRig(t *testing.T) killRig {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "-")
	r := killRig{t.TempDir(), filepath.Join(rig.base, "served", name), rig.url + "/" + name}
	must.Succeed(t, os.Mkdir(r.served, 0o755))
	t.Cleanup(func() { removeAll(r.served) })
	return r
}

// pattern returns bytes that differ at every offset, and from one seed to another.
func pattern(size int, seed uint64) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i+8 <= size; i += 8 {
		for j, v := 0, r.Uint64(); j < 8; j, v = j+1, v>>8 {
			b[i+j] = byte(v)
		}
	}
	return b
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name, b, 0o644))
}

// A run is a process of nfsrdma.
type run struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

func start(t *testing.T, args ...string) run {
	t.Helper()
	r := run{exec.Command(filepath.Join(rig.bin, "nfsrdma"), args...), new(bytes.Buffer)}
	r.cmd.Stderr = r.stderr
	r.cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := r.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	return r
}

// end waits for the process and reports whether its status is 0.
func (r run) end(t *testing.T) (ok bool) {
	t.Helper()
	hung := time.AfterFunc(2*time.Minute, func() { _ = r.cmd.Process.Kill() })
	defer func() {
		if !hung.Stop() {
			t.Errorf("%v does not end: %s", r.cmd.Args[1:], r.stderr)
		}
	}()
	err := r.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return err == nil
}

// begin waits until the process writes a file in dir, or has ended. Before that, a signal may end
// the process without a message.
func (r run) begin(t *testing.T, dir string) {
	t.Helper()
	stat := fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid)
	for {
		if left, _ := filepath.Glob(filepath.Join(dir, "*"+tempMark+"*")); len(left) > 0 {
			return
		}
		if b, err := os.ReadFile(stat); err != nil || bytes.Contains(b, []byte(") Z ")) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// interruptAt sends a signal after a random part of the time that a whole run takes.
func (r run) interruptAt(whole time.Duration, sig os.Signal) {
	time.Sleep(rand.N(whole))
	_ = r.cmd.Process.Signal(sig)
}

// checkLeft checks that the output names each incomplete file left under dir, and removes the file.
// A killed process cannot name any.
func (r run) checkLeft(t *testing.T, dir string, killed bool) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), tempMark) {
			if !killed && !strings.Contains(r.stderr.String(), d.Name()) {
				t.Errorf("%s is left, and not told of: %s", d.Name(), r.stderr)
			}
			_ = os.RemoveAll(path)
		}
		return nil
	})
}

// checkFile checks that a file has one of several contents, and returns the content's index, or -1.
// A nil content means that the file does not exist.
func checkFile(t *testing.T, name string, contents ...[]byte) int {
	t.Helper()
	got, err := os.ReadFile(name)
	for i, want := range contents {
		if want == nil && errors.Is(err, fs.ErrNotExist) || want != nil && err == nil && bytes.Equal(got, want) {
			return i
		}
	}
	t.Errorf("%s is neither what it was nor what it shall be: %d bytes, %x, %v", name, len(got), sha256.Sum256(got), err)
	return -1
}

var signals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGHUP, syscall.SIGQUIT}

// TestInterruptedCopyLeavesNoHalfFile: after an interrupted copy, the name has its old content or
// all of the new.
func TestInterruptedCopyLeavesNoHalfFile(t *testing.T) {
	r := newKillRig(t)
	big, old := pattern(bigSize, 1), []byte("old\n")
	for _, way := range []struct{ name, from, to, fromArg, toArg string }{
		{"up", r.local + "/big", r.served + "/up", r.local + "/big", r.url + "/up"},
		{"down", r.served + "/big", r.local + "/down", r.url + "/big", r.local + "/down"},
	} {
		write(t, way.from, big)
		began := time.Now()
		if p := start(t, "cp", way.fromArg, way.toArg); !p.end(t) {
			t.Fatalf("%s: %s", way.name, p.stderr)
		}
		whole := time.Since(began)
		for i := range kills {
			before := old
			if i%2 == 1 {
				before = nil
				_ = os.Remove(way.to)
			} else {
				write(t, way.to, old)
			}
			sig := signals[i%len(signals)]
			p := start(t, "cp", way.fromArg, way.toArg)
			p.begin(t, filepath.Dir(way.to))
			p.interruptAt(whole, sig)
			ok := p.end(t)
			if n := checkFile(t, way.to, before, big); ok && n != 1 {
				t.Errorf("%s, %v: status 0, and the file is not there", way.name, sig)
			}
			if !ok && sig != syscall.SIGKILL && p.stderr.Len() == 0 {
				t.Errorf("%s, %v: not a word", way.name, sig)
			}
			p.checkLeft(t, filepath.Dir(way.to), sig == syscall.SIGKILL)
		}
		checkFile(t, way.from, big)
		_, _ = os.Remove(way.from), os.Remove(way.to)
	}
}

// TestEverySignalRemovesTheTemporaryFile: each signal that users, terminals and service managers
// use makes a program remove its temporary file, and ends it as a shell expects. The source is a
// FIFO with a part and no end, so that the copy is in progress.
func TestEverySignalRemovesTheTemporaryFile(t *testing.T) {
	r := newKillRig(t)
	fifo := r.local + "/fifo"
	must.Succeed(t, syscall.Mkfifo(fifo, 0o644))
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		for _, way := range []struct{ arg, dir string }{{r.url + "/f", r.served}, {r.local + "/f", r.local}} {
			p := start(t, "cp", fifo, way.arg)
			feed, err := os.OpenFile(fifo, os.O_WRONLY, 0)
			if err != nil {
				t.Fatalf("os.OpenFile: %v", err)
			}
			if _, err := feed.Write(pattern(3<<20, 1)); err != nil {
				t.Fatalf("feed.Write: %v", err)
			}
			waitForTemp(t, way.dir)
			_ = p.cmd.Process.Signal(sig)
			p.end(t)
			feed.Close()
			status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if sig != syscall.SIGQUIT && (!status.Signaled() || status.Signal() != sig) {
				t.Errorf("%v: %v", sig, p.cmd.ProcessState)
			}
			if sig == syscall.SIGQUIT && status.ExitStatus() != 131 {
				t.Errorf("%v: %v, want status 131", sig, p.cmd.ProcessState)
			}
			p.checkLeft(t, way.dir, false)
			checkFile(t, way.dir+"/f", nil)
		}
	}
}

// TestReaderOfOutputGone: if the pipe at its standard output is closed, a copy ends by SIGPIPE,
// like coreutils. No incomplete file stays.
func TestReaderOfOutputGone(t *testing.T) {
	r := newKillRig(t)
	files := smallTree(t, r.local+"/tree", 400)
	p := run{exec.Command(filepath.Join(rig.bin, "nfsrdma"), "cp", "-rv", r.local+"/tree", r.url+"/tree"), new(bytes.Buffer)}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	p.cmd.Stdout, p.cmd.Stderr = in, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Errorf("out.Read: %v", err)
	}
	out.Close()
	p.end(t)
	if status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGPIPE {
		t.Errorf("%v: %s", p.cmd.ProcessState, p.stderr)
	}
	for name, content := range files {
		checkFile(t, r.served+"/tree/"+name, nil, content)
	}
	p.checkLeft(t, r.served, false)
}

// smallTree makes n small files in several directories, and returns their contents by name.
func smallTree(t *testing.T, dir string, n int) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for i := range n {
		name := fmt.Sprintf("d%d/e%d/f%d", i%7, i%3, i)
		must.Succeed(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		files[name] = pattern(1000+i*400, uint64(i))
		write(t, filepath.Join(dir, name), files[name])
	}
	return files
}

// TestInterruptedTreeHasWholeFiles: an interrupted copy of a tree leaves only whole files.
func TestInterruptedTreeHasWholeFiles(t *testing.T) {
	r := newKillRig(t)
	files := smallTree(t, r.local+"/tree", 400)
	began := time.Now()
	if p := start(t, "cp", "-r", r.local+"/tree", r.url+"/whole"); !p.end(t) {
		t.Fatal(p.stderr)
	}
	whole := time.Since(began)
	for i := range kills {
		sig := signals[i%len(signals)]
		to := fmt.Sprintf("/copy%d", i)
		p := start(t, "cp", "-r", r.local+"/tree", r.url+to)
		p.interruptAt(whole, sig)
		ok := p.end(t)
		for name, content := range files {
			if n := checkFile(t, r.served+to+"/"+name, nil, content); ok && n != 1 {
				t.Errorf("%v: status 0, and %s is not there", sig, name)
			}
		}
		// Each copy has its own directory: the server may finish work for a killed process after
		// the next copy has begun.
		p.checkLeft(t, r.served+to, sig == syscall.SIGKILL)
	}
}

// TestInterruptedMoveLosesNothing: after an interrupted move, each file is whole on at least one
// side.
func TestInterruptedMoveLosesNothing(t *testing.T) {
	r := newKillRig(t)
	for i := range kills {
		sig := signals[i%len(signals)]
		from := fmt.Sprintf("/tree%d", i)
		files := smallTree(t, r.local+from, 200)
		p := start(t, "mv", r.local+from, r.url+from)
		p.interruptAt(time.Second, sig)
		ok := p.end(t)
		for name, content := range files {
			here := checkFile(t, r.local+from+"/"+name, nil, content)
			there := checkFile(t, r.served+from+"/"+name, nil, content)
			if here != 1 && there != 1 {
				t.Errorf("%v: %s is nowhere", sig, name)
			}
			if ok && (here != 0 || there != 1) {
				t.Errorf("%v: status 0, and %s was not moved", sig, name)
			}
		}
	}
}

// fullFS mounts a file system of a few megabytes.
func fullFS(t *testing.T, size string) string {
	t.Helper()
	machine.NeedRoot(t, "a small tmpfs can be mounted by root alone")
	dir := filepath.Join(rig.base, strings.ReplaceAll(t.Name(), "/", "-"))
	must.Succeed(t, os.Mkdir(dir, 0o755))
	must.Succeed(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestNoSpaceLeavesNoHalfFile: without room, the name's old content stays, and no other file is
// left. The copy fails with the cause, in both directions.
func TestNoSpaceLeavesNoHalfFile(t *testing.T) {
	r := newKillRig(t)
	full := fullFS(t, "8m")
	srv, err := startServer(full)
	if err != nil {
		t.Fatalf("startServer: %v", err)
	}
	defer srv.stop()
	big, old := pattern(20<<20, 1), []byte("old\n")
	write(t, r.local+"/big", big)
	write(t, r.served+"/big", big)
	for _, way := range []struct{ name, from, to string }{
		{"up", r.local + "/big", srv.url + "/f"},
		{"down", r.url + "/big", full + "/f"},
	} {
		for _, before := range [][]byte{nil, old} {
			if before != nil {
				write(t, full+"/f", before)
			}
			p := start(t, "cp", way.from, way.to)
			if p.end(t) {
				t.Errorf("%s: status 0", way.name)
			}
			if !strings.Contains(p.stderr.String(), "No space left on device") {
				t.Errorf("%s: %s", way.name, p.stderr)
			}
			checkFile(t, full+"/f", before)
			entries, err := os.ReadDir(full)
			if err != nil || len(entries) > 1 || before == nil && len(entries) > 0 {
				t.Errorf("%s: left: %v %v", way.name, entries, err)
			}
			_ = os.Remove(full + "/f")
		}
	}
	checkFile(t, r.local+"/big", big)
}

// TestNoSpaceInATree: files that fit are copied whole, and the others do not exist.
func TestNoSpaceInATree(t *testing.T) {
	r := newKillRig(t)
	full := fullFS(t, "8m")
	srv, err := startServer(full)
	if err != nil {
		t.Fatalf("startServer: %v", err)
	}
	defer srv.stop()
	files := smallTree(t, r.local+"/tree", 400) // 32 MB
	p := start(t, "cp", "-r", r.local+"/tree", srv.url+"/tree")
	if p.end(t) {
		t.Error("status 0")
	}
	there := 0
	for name, content := range files {
		there += checkFile(t, full+"/tree/"+name, nil, content)
	}
	if there == 0 || there == len(files) {
		t.Errorf("%d of %d files are there", there, len(files))
	}
	p.checkLeft(t, full, false)
}

// TestServerKilled: when the server is killed during a copy, the name keeps its old content, or has
// all of the new.
func TestServerKilled(t *testing.T) {
	r := newKillRig(t)
	big, old := pattern(bigSize, 1), []byte("old\n")
	write(t, r.local+"/big", big)
	served := t.TempDir()
	for _, way := range []string{"up", "down"} {
		srv, err := startServer(served)
		if err != nil {
			t.Fatalf("startServer: %v", err)
		}
		write(t, served+"/big", big)
		from, to, final := r.local+"/big", srv.url+"/f", served+"/f"
		if way == "down" {
			from, to, final = srv.url+"/big", r.local+"/f", r.local+"/f"
		}
		write(t, final, old)
		p := start(t, "--timeout", "30s", "cp", from, to)
		waitForTemp(t, filepath.Dir(final))
		_ = srv.cmd.Process.Kill()
		ok := p.end(t)
		_ = srv.cmd.Wait()
		if n := checkFile(t, final, old, big); ok && n != 1 {
			t.Errorf("%s: status 0, and the file is not there", way)
		}
		if !ok && p.stderr.Len() == 0 {
			t.Errorf("%s: not a word", way)
		}
		p.checkLeft(t, filepath.Dir(final), false)
		_ = os.Remove(final)
	}
	checkFile(t, r.local+"/big", big)
}

// waitForTemp waits until a copy has begun to write.
func waitForTemp(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		found, _ := filepath.Glob(dir + "/.*" + tempMark + "*")
		for _, name := range found {
			if fi, err := os.Stat(name); err == nil && fi.Size() > 0 {
				return
			}
		}
	}
	t.Fatal("nothing is written")
}
