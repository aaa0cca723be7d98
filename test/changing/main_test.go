// The suite's programs and its server process: build them, start the server, and call it.

// Package changing holds the suite in which the machine changes while a server runs.
package changing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
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
	"github.com/nfsrdma/nfsrdma/test/must"
)

// program and client are the paths of nfsrdmad and nfsrdma, built with clocks set by the tests.
var program, client string

func TestMain(m *testing.M) {
	if rule := os.Getenv(forbidEnv); rule != "" {
		fmt.Fprintln(os.Stderr, "test/changing:", forbid(rule, os.Args[1:]))
		os.Exit(1)
	}
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/changing:", err)
		code = 1
	}
	os.Exit(code)
}

// build builds the programs. A test in a network of its own was started by another test, and uses
// the programs already built for that test.
func build(m *testing.M) (int, error) {
	const env = "NFSRDMA_TEST_CHANGING"
	dir := os.Getenv(env)
	if dir == "" {
		made, err := os.MkdirTemp("", "nfsrdma-changing-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(made)
		if err := buildWithClocks(made); err != nil {
			return 1, err
		}
		if err := errors.Join(os.Chmod(made, 0o755), os.Setenv(env, made)); err != nil {
			return 1, err
		}
		dir = made
	}
	program, client = filepath.Join(dir, "nfsrdmad"), filepath.Join(dir, "nfsrdma")
	return m.Run(), nil
}

// patience limits each wait, so that a hung test ends. It is long, because a busy machine is slow;
// no test measures time by it.
const patience = 5 * time.Minute

// A server is a process of nfsrdmad.
type server struct {
	*testing.T
	cmd    *exec.Cmd
	addr   string // address of NFS over TCP
	rdma   string // address of NFS over RDMA; "": not served
	dir    string // of its control socket
	clk    clock
	passed time.Duration // by which its clock is ahead
	end    func()

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

// start runs a server with the arguments until the test ends. The shell commands run first, in the
// process that becomes the server.
func start(t *testing.T, shell, state string, args ...string) *server {
	t.Helper()
	port := fmt.Sprint(machine.Port(t))
	s := &server{T: t, addr: "127.0.0.1:" + port, dir: t.TempDir(), clk: newClock(t)}
	all := append([]string{"-c", shell + ` exec "$0" "$@"`, program, "serve", "--rdma-port", "0", "--tcp-port", port, "--rpcbind", "off",
		"--trust-local", "--no-root-squash", "--state-dir", state, "--control", filepath.Join(s.dir, "control")}, args...)
	s.cmd = exec.Command("sh", all...)
	s.cmd.Stdout, s.cmd.Stderr = s, s
	s.cmd.Env = append(os.Environ(), s.clk.env())
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
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

// reload makes the server read its exports file again.
func (s *server) reload() {
	s.Helper()
	sh(s.T, program, "reload", "--control", filepath.Join(s.dir, "control"))
}

// mount mounts an export by the MOUNT protocol and returns it. The first call connects over TCP.
func (s *server) mount(name string) (*nfsclient.FS, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.client == nil {
		_, port, err := net.SplitHostPort(s.addr)
		must.Succeed(s.T, err)
		s.connect(nfsclient.Options{Transport: nfsclient.TCP}, port)
	}
	return s.client.Mount(ctx, name)
}

// connect connects the test's client to a port of the server, with options o.
func (s *server) connect(o nfsclient.Options, port string) {
	s.Helper()
	host, _, err := net.SplitHostPort(s.addr)
	must.Succeed(s.T, err)
	c, err := nfsclient.Dial(s.Context(), net.JoinHostPort(host, port), o)
	must.Succeed(s.T, err)
	s.Cleanup(func() { c.Close() })
	s.client = c
}

// has reports whether an export is served and holds a file with that name.
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

// sh runs a command, which must succeed.
func sh(t *testing.T, command string, args ...string) {
	t.Helper()
	if out, err := exec.Command(command, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", command, strings.Join(args, " "), err, out)
	}
}
