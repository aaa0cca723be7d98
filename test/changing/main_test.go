// The world changes under a running server: what is read from the machine, when it is read again, and the program that is changed under.

// Package changing holds the suite in which the machine changes while a server runs.
package changing

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// program is nfsrdmad, built for the suite.
var program string

func TestMain(m *testing.M) {
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/changing:", err)
		code = 1
	}
	os.Exit(code)
}

// build makes the program, unless a test that runs once more in a network of its own has it already.
func build(m *testing.M) (int, error) {
	const env = "NFSRDMA_TEST_CHANGING"
	if program = os.Getenv(env); program != "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "nfsrdma-changing-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "nfsrdmad")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/nfsrdmad")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("%w: %s", err, out)
	}
	if err := os.Setenv(env, program); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// patience ends a test that stands still. It is no measure: a busy machine takes its time.
const patience = 5 * time.Minute

// A server is a process of nfsrdmad.
type server struct {
	*testing.T
	cmd  *exec.Cmd
	addr string // of NFS over TCP
	dir  string // of its control socket
	end  func()

	client *nfsclient.Client // of the test's goroutine; nil: not connected yet

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

func (s *server) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

func (s *server) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// start runs a server of the arguments, with shell before it, until the test ends.
func start(t *testing.T, shell, state string, args ...string) *server {
	t.Helper()
	port := fmt.Sprint(machine.Port(t))
	s := &server{T: t, addr: "127.0.0.1:" + port, dir: t.TempDir()}
	all := append([]string{"-c", shell + ` exec "$0" "$@"`, program, "serve", "--rdma-port", "0", "--tcp-port", port, "--rpcbind", "off",
		"--trust-local", "--no-root-squash", "--state-dir", state, "--control", filepath.Join(s.dir, "control")}, args...)
	s.cmd = exec.Command("sh", all...)
	s.cmd.Stdout, s.cmd.Stderr = s, s
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(ended) }()
	s.end = func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	t.Cleanup(func() {
		s.end()
		if t.Failed() {
			t.Log(s.said())
		}
	})
	s.await("the start", func() bool {
		select {
		case <-ended:
			t.Fatalf("the server has ended: %s", s.said())
		default:
		}
		return strings.Contains(s.said(), "TCP: ")
	})
	return s
}

// await waits for a condition.
func (s *server) await(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("no %s: %s", what, s.said())
		}
	}
}

// mount returns an export by MNT.
func (s *server) mount(name string) (*nfsclient.FS, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.client == nil {
		c, err := nfsclient.Dial(ctx, s.addr, nfsclient.Options{Transport: nfsclient.TCP})
		if err != nil {
			return nil, err
		}
		s.Cleanup(func() { c.Close() })
		s.client = c
	}
	return s.client.Mount(ctx, name)
}

// has reports whether an export is served and has a file of that name.
func (s *server) has(export, name string) bool {
	tree, err := s.mount(export)
	if err != nil {
		return false
	}
	_, err = tree.ReadFile(context.Background(), name)
	return err == nil
}

// mustWrite writes a file of an export that is served.
func (s *server) mustWrite(export, name string) {
	s.Helper()
	tree, err := s.mount(export)
	if err == nil {
		err = tree.WriteFile(context.Background(), name, []byte("content"), 0o644)
	}
	if err != nil {
		s.Errorf("write of %s in %s: %v", name, export, err)
	}
}

// sh runs a command, which succeeds.
func sh(t *testing.T, command string, args ...string) {
	t.Helper()
	if out, err := exec.Command(command, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", command, strings.Join(args, " "), err, out)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// facts lists what a server reads from the machine, when it reads it again, and the test that changes it.
var facts = []struct{ fact, again, test string }{
	{"an export's directory", "each second while it cannot be opened", "TestDirectoryAppears"},
	{"what is mounted at an export's directory", "when the kernel says that mounts have changed", "TestMountedOver"},
	{"that an export's file system is mounted", "when the kernel says that mounts have changed", "TestUnmountedByForce"},
	{"the addresses of the machine, for TCP", "never: the kernel serves one once it is there", "TestAddressAppears"},
	{"the file of clients with locks", "at start, and with each new client while it cannot be kept", "TestStateDamaged"},
	{"room for state", "with each new client", "TestStateDirectoryFull"},
	{"the limit on descriptors", "each second while an export lacks some", "TestDescriptorsRunOut"},
}

// TestFacts: each fact has a test.
func TestFacts(t *testing.T) {
	for _, f := range facts {
		files, err := filepath.Glob("*_test.go")
		must(t, err)
		found := false
		for _, file := range files {
			b, err := os.ReadFile(file)
			must(t, err)
			found = found || bytes.Contains(b, []byte("func "+f.test+"(t *testing.T)"))
		}
		if !found {
			t.Errorf("%s, read %s: there is no %s", f.fact, f.again, f.test)
		}
	}
}
