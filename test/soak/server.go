// The server under test: an nfsrdmad process on free ports, built from this tree.

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// exportName is the name of the exported directory.
const exportName = "/soak"

// A server is an nfsrdmad process with its files.
type server struct {
	base    string // directory of the run's files
	served  string // the exported directory
	cmd     *exec.Cmd
	rdma    string // addresses
	tcp     string
	metrics string
	errors  output
}

// An output keeps the last part of a process's output.
type output struct {
	mu sync.Mutex
	b  []byte
}

const outputKept = 16 << 10

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b = append(o.b, b...)
	o.b = o.b[max(0, len(o.b)-outputKept):]
	return len(b), nil
}

func (s *server) log() string {
	s.errors.mu.Lock()
	defer s.errors.mu.Unlock()
	return string(bytes.Clone(s.errors.b))
}

// startServer builds both commands and serves a new directory below dir. If another program takes a
// chosen port before the server listens, startServer tries other ports.
func startServer(dir string) (s *server, err error) {
	base, err := os.MkdirTemp(dir, "nfsrdma-soak-")
	if err != nil {
		return nil, err
	}
	s = &server{base: base, served: filepath.Join(base, "served")}
	defer func() {
		if err != nil {
			os.RemoveAll(base)
		}
	}()
	if err := os.Mkdir(s.served, 0o755); err != nil {
		return nil, err
	}
	const module = "github.com/nfsrdma/nfsrdma/cmd/"
	build := exec.Command("go", "build", "-o", base+"/", module+"nfsrdma", module+"nfsrdmad")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	for range 5 {
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *server) start() error {
	var ports [3]string
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close() // closed together, so that the ports differ
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
		l.Close()
	}
	s.rdma, s.tcp, s.metrics = "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1], "127.0.0.1:"+ports[2]
	s.cmd = exec.Command(filepath.Join(s.base, "nfsrdmad"), "serve", "--rdma", "iwarp", "--rdma-port", ports[0], "--tcp-port", ports[1],
		"--metrics-addr", s.metrics, "--state-dir", filepath.Join(s.base, "state"), "--no-root-squash", s.served+"="+exportName)
	s.cmd.Stderr = &s.errors
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	// The server writes its first line when it listens.
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		s.kill()
		return fmt.Errorf("nfsrdmad did not start: %w\n%s", err, s.log())
	}
	return nil
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// stop ends the server and removes the run's files.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	late := time.AfterFunc(30*time.Second, func() { _ = s.cmd.Process.Kill() })
	_ = s.cmd.Wait()
	late.Stop()
	_ = os.RemoveAll(s.base)
}

// url returns the URL of a file or directory over a transport.
func (s *server) url(transport, name string) string {
	if transport == "tcp" {
		return "nfs://" + s.tcp + exportName + "/" + name
	}
	return "nfsrdma://" + s.rdma + exportName + "/" + name
}

// client runs nfsrdma to its end.
func (s *server) client(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.base, "nfsrdma"), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("nfsrdma %q: %w\n%s", args, err, out)
	}
	return nil
}

// killedClient runs nfsrdma and kills it after a while. It reports whether the client was still
// running.
func (s *server) killedClient(after time.Duration, args ...string) (killed bool, err error) {
	cmd := exec.Command(filepath.Join(s.base, "nfsrdma"), args...)
	var out output
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		return false, err
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true, nil
		}
		return false, fmt.Errorf("nfsrdma %q: %w\n%s", args, err, out.b)
	}
	return false, err
}
