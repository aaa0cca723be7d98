// Servers as separate processes, which can be killed and restarted.

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// A process is the program with a volume as /vol, over RDMA and TCP.
type process struct {
	t         *testing.T
	host      string
	rdma, tcp string // the ports
	args      []string
	log       string // the log file
	control   string // the control socket
	cmd       *exec.Cmd
	ended     chan struct{} // closed when cmd has ended
}

// startProcess starts the program with additional flags. (The race detector finds a race within
// JuiceFS, between a session's start and its first heartbeat. It is in the log, and fails no test.)
func startProcess(t *testing.T, volume string, flags ...string) *process {
	t.Helper()
	return startProcessAt(t, "127.0.0.1", strconv.Itoa(machine.Port(t)), strconv.Itoa(machine.Port(t)), volume, append([]string{"--rpcbind", "off"}, flags...)...)
}

// startProcessAt is like startProcess, at an address and ports.
func startProcessAt(t *testing.T, host, rdma, tcp, volume string, flags ...string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{t: t, host: host, rdma: rdma, tcp: tcp, log: filepath.Join(dir, "log"), control: filepath.Join(dir, "control")}
	p.args = append([]string{"serve", volume + "=/vol", "--no-root-squash", "--rdma", "iwarp", "--rdma-port", p.rdma, "--tcp-port", p.tcp,
		"--state-dir", filepath.Join(dir, "state"), "--control", p.control, "--log-level", "warning"}, flags...)
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			b, _ := os.ReadFile(p.log)
			t.Logf("the server at %s said:\n%s", p.addr(), b[max(0, len(b)-8000):])
		}
	})
	return p
}

// start starts the server at its ports, the first time or again, and returns when it serves.
func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.t.Fatalf("os.OpenFile: %v", err)
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+strings.Join(p.args, "\n"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("cmd.Start: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	p.cmd, p.ended = cmd, ended
	s := &server{addr: p.addr(), stop: func() string { return "see its log" }}
	s.await(p.t, ended)
}

// addr returns the server's address for NFS over TCP.
func (p *process) addr() string { return p.host + ":" + p.tcp }

// kill ends the server as a failing machine would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}
