// The rig: binaries built once, servers and mounts as processes, and their end.

package mount

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/several"
)

// The rig is set once, by TestMain.
var rig struct {
	base string // all that the suite makes
	bin  string
	skip string // why nothing can be mounted here; "" where it can
}

// full makes the suite run at length.
var full = os.Getenv("NFSRDMA_FULL") != ""

// thin makes the suite do less with the race detector, under which everything costs three times as
// much.
var thin = raceOn && !full

// scaled returns a count of operations: few in the standing test, many at length.
func scaled(few, many int) int {
	switch {
	case full:
		return many
	case thin:
		return (few + 3) / 4
	}
	return few
}

func TestMain(m *testing.M) {
	several.Main()
	if name := os.Getenv(workerEnv); name != "" {
		os.Exit(runWorker(name))
	}
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/mount:", err)
		code = 1
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (int, error) {
	// Pdeathsig depends on the thread that starts a process.
	runtime.LockOSThread()
	base, err := os.MkdirTemp("", "nfsrdma-mount-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o755); err != nil {
		return 1, err
	}
	rig.base, rig.bin = base, filepath.Join(base, "bin")
	if os.Geteuid() != 0 {
		rig.skip = "mounting for several users wants root"
	} else if _, err := os.Stat("/dev/fuse"); err != nil {
		rig.skip = "there is no /dev/fuse"
	}
	if rig.skip == "" {
		if err := buildPrograms(); err != nil {
			return 1, err
		}
	}
	code := m.Run()
	if left := clearMounts(); len(left) > 0 {
		return 1, fmt.Errorf("still mounted after the tests: %s", strings.Join(left, " "))
	}
	if raced := raceReports(); raced != "" {
		return 1, fmt.Errorf("data races in the programs:\n%s", lastLines(raced, 200))
	}
	return code, nil
}

// buildPrograms builds the programs under test, with the race detector if the suite has it. Mounts
// in the background have no standard error: races are reported to files.
func buildPrograms() error {
	args := []string{"build", "-o", rig.bin + "/", "./cmd/nfsrdma", "./cmd/nfsrdmad"}
	if raceOn {
		args = slices.Insert(args, 1, "-race")
		races := filepath.Join(rig.base, "races")
		if err := os.Mkdir(races, 0o777); err != nil {
			return err
		}
		if err := os.Chmod(races, 0o777); err != nil { // ordinary users mount too
			return err
		}
		if err := os.Setenv("GORACE", "log_path="+filepath.Join(races, "race")+" atexit_sleep_ms=0"); err != nil {
			return err
		}
	}
	build := exec.Command("go", args...)
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.Symlink("nfsrdma", filepath.Join(rig.bin, "mount.nfsrdma"))
}

// raceReports returns the reports that the programs under test have left.
func raceReports() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(rig.base, "races", "*"))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		all.Write(b)
	}
	return all.String()
}

// needMounts skips a test where nothing can be mounted.
func needMounts(t *testing.T) {
	t.Helper()
	if rig.skip != "" {
		machine.Skip(t, rig.skip)
	}
}

// need skips a test where a program is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			machine.Skip(t, "there is no "+p)
		}
	}
}

// A server is a process of nfsrdmad with a directory and memory to serve.
type server struct {
	dir    string // the directory behind /export
	state  string
	rdma   int // ports
	tcp    int
	cmd    *exec.Cmd
	log    *os.File
	extras []string
	by     []string // the command prefix for the server's network, if it has one of its own
}

// startServer serves a directory as /export and memory as /memory, over RDMA and TCP.
func startServer(t *testing.T, extras ...string) *server {
	t.Helper()
	return startServerOn(t, tempDir(t, "served"), extras...)
}

// startServerOn starts a server like startServer, with the caller's directory.
func startServerOn(t *testing.T, dir string, extras ...string) *server {
	t.Helper()
	s := &server{dir: dir, extras: extras}
	s.run(t)
	return s
}

// run starts the server, which ends with the test.
func (s *server) run(t *testing.T) {
	t.Helper()
	s.state = tempDir(t, "state")
	err := os.Chmod(s.dir, 0o777)
	if err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	if s.log, err = os.Create(s.state + ".log"); err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	t.Cleanup(func() {
		s.end(os.Interrupt)
		s.log.Close()
		if t.Failed() {
			b, _ := os.ReadFile(s.log.Name())
			t.Logf("the server's log:\n%s", lastLines(string(b), 30))
		}
	})
	s.rdma, s.tcp = machine.Port(t), machine.Port(t)
	if err = s.start(); err != nil {
		t.Fatalf("start: %v", err)
	}
}

// start starts the server on its ports, the first time or again.
func (s *server) start() error {
	args := append([]string{"serve", "--rdma", "iwarp", "--rdma-port", strconv.Itoa(s.rdma), "--tcp-port", strconv.Itoa(s.tcp), "--state-dir", s.state,
		"--no-root-squash", "--trust-local", "--async-names", "--memory"}, s.extras...)
	line := slices.Concat(s.by, []string{filepath.Join(rig.bin, "nfsrdmad")}, args, []string{s.dir + "=/export"})
	s.cmd = exec.Command(line[0], line[1:]...)
	s.cmd.Stderr = s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // written when it listens
		s.end(os.Kill)
		return fmt.Errorf("nfsrdmad did not start: %w", err)
	}
	return nil
}

// end ends the server by a signal, and waits for it.
func (s *server) end(sig os.Signal) {
	_ = s.cmd.Process.Signal(sig)
	kill := time.AfterFunc(5*time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.cmd.Wait()
}

// tempDir makes a directory that is removed after the mounts in it, if any, are gone.
func tempDir(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp(rig.base, name+"-")
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	must.Succeed(t, os.Chmod(dir, 0o755))
	return dir
}

// options returns the mount options that reach a server.
func (s *server) options(proto string) string {
	port := s.rdma
	if proto == "tcp" {
		port = s.tcp
	}
	return fmt.Sprintf("proto=%s,port=%d,mountport=%d", proto, port, s.tcp)
}

// nfsrdma runs the client binary, and returns its output and exit status.
func nfsrdma(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return command(t, "", nil, filepath.Join(rig.bin, "nfsrdma"), args...)
}

// command runs a program to its end, as another user if cred is given.
func command(t *testing.T, dir string, cred *syscall.Credential, name string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), workerLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	cmd.WaitDelay = 2 * time.Minute
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", name, err)
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}
