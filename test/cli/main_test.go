// The same command lines run by coreutils on a local directory and by nfsrdma on a served one, and
// their results compared.

// Package cli holds the suite that compares nfsrdma's file commands with coreutils: see testdata
// for the cases.
package cli

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// exportName is the server's name for its directory.
const exportName = "/export"

// The rig is set once, by TestMain.
var rig struct {
	base string // all that the suite makes: bin, state, and the directory that is served
	bin  string
	url  string // of the export, without a slash at its end
}

func TestMain(m *testing.M) {
	machine.HeedSignals(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/cli:", err)
		code = 1
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (int, error) {
	base, err := os.MkdirTemp("", "nfsrdma-cli-")
	if err != nil {
		return 1, err
	}
	defer removeAll(base)
	rig.base, rig.bin = base, filepath.Join(base, "bin")
	served := filepath.Join(base, "served")
	for _, dir := range []string{base, rig.bin, served} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return 1, err
		}
		// Neither the umask nor MkdirTemp's mode may keep the ordinary user out.
		if err := os.Chmod(dir, 0o755); err != nil {
			return 1, err
		}
	}
	build := exec.Command("go", "build", "-o", rig.bin+"/", "./cmd/nfsrdma", "./cmd/nfsrdmad")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	// A server ends with the thread that started it, however this process ends.
	runtime.LockOSThread()
	srv, err := startServer(served)
	if err != nil {
		return 1, err
	}
	defer srv.stop()
	rig.url = srv.url
	// The tests mostly wait for processes that wait for one another, so more of them run at once.
	flag.Parse()
	_ = flag.Set("test.parallel", "4")
	return m.Run(), nil
}

// A server is a process of nfsrdmad.
type server struct {
	cmd *exec.Cmd
	url string
	log *strings.Builder
}

// startServer serves a directory as /export on a port that stays this process's own: a client of an
// ended server reaches no other.
func startServer(dir string, extra ...string) (*server, error) {
	port, _, err := machine.ReservePort()
	if err != nil {
		return nil, err
	}
	state, err := os.MkdirTemp(rig.base, "state-")
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--rdma", "iwarp", "--rdma-port", fmt.Sprint(port), "--tcp-port", "0", "--state-dir", state, "--async-names"}
	if os.Geteuid() == 0 {
		// The ordinary user has no account, so the server could not look his groups up.
		args = append(args, "--no-root-squash", "--trust-local")
	}
	args = append(append(args, extra...), dir+"="+exportName)
	s := &server{cmd: exec.Command(filepath.Join(rig.bin, "nfsrdmad"), args...), log: new(strings.Builder)}
	s.url = fmt.Sprintf("nfsrdma://127.0.0.1:%d%s", port, exportName)
	s.cmd.Stderr = s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	// The first line is written when the server listens.
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return nil, fmt.Errorf("nfsrdmad did not start: %w\n%s", err, s.log)
	}
	return s, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	done := time.AfterFunc(5*time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer done.Stop()
	_ = s.cmd.Wait()
}

// removeAll removes a tree, also through directories that its owner is not allowed to enter.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = exec.Command("chmod", "-R", "u+rwx", dir).Run()
	_ = os.RemoveAll(dir)
}
