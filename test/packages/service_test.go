// systemd's work for the server, done by the test: sockets, directories and the command from the
// installed units, with their privileges.

package packages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A manager runs the installed service as its unit says, and answers systemctl in the system under
// test.
type manager struct {
	t    *testing.T
	root string
	name string // of the service, and of its program

	sockets []*os.File // from the socket unit: open as long as the test runs
	ready   *net.UnixConn

	mu     sync.Mutex
	cmd    *exec.Cmd // the running server, or nil. Guarded by mu.
	starts int       // guarded by mu
	asked  []string  // arguments of systemctl calls, guarded by mu
}

// systemctl hands its arguments to the test, and waits for the answer.
const systemctl = `#!/bin/sh
echo "$*" > /run/systemctl.asked
read -r status < /run/systemctl.answer
exit "$status"
`

func newManager(t *testing.T, root, name string) *manager {
	t.Helper()
	m := &manager{t: t, root: root, name: name}
	addr := &net.UnixAddr{Name: filepath.Join(root, "run/notify"), Net: "unixgram"}
	var err error
	if m.ready, err = net.ListenUnixgram("unixgram", addr); err != nil {
		t.Fatalf("net.ListenUnixgram: %v", err)
	}
	put(t, filepath.Join(root, "usr/bin/systemctl"), systemctl, 0o755)
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		// systemd runs: sd_booted(3)
		t.Fatalf("os.MkdirAll: %v", err)
	}
	fifo := func(name string) *os.File {
		name = filepath.Join(root, "run", name)
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatalf("syscall.Mkfifo: %v", err)
		}
		// both ends, so that neither open waits nor a reader sees an end
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatalf("os.OpenFile: %v", err)
		}
		return f
	}
	asked, answer := fifo("systemctl.asked"), fifo("systemctl.answer")
	t.Cleanup(func() {
		m.ready.Close()
		for _, f := range m.sockets {
			f.Close()
		}
	})
	go func() {
		for lines := bufio.NewScanner(asked); lines.Scan(); {
			status := 0
			if err := m.obey(lines.Text()); err != nil {
				t.Errorf("systemctl %s: %v", lines.Text(), err)
				status = 1
			}
			fmt.Fprintln(answer, status)
		}
	}()
	return m
}

// obey does what systemctl requests.
func (m *manager) obey(line string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, line)
	words := strings.Fields(strings.NewReplacer("--system ", "", "--quiet ", "").Replace(line))
	switch words[0] {
	case "daemon-reload":
		return nil
	case "stop":
		return m.stopLocked()
	case "try-restart":
		if m.cmd == nil {
			return nil
		}
		return errors.Join(m.stopLocked(), m.startLocked())
	}
	return errors.New("is not expected")
}

// calls returns the systemctl calls since its last call.
func (m *manager) calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.asked
	m.asked = nil
	return list
}

// setting returns the values of a setting in the installed unit whose suffix is unit.
func (m *manager) setting(unit, name string) (values []string) {
	m.t.Helper()
	unit = m.name + "." + unit
	text, err := os.ReadFile(filepath.Join(m.root, "usr/lib/systemd/system", unit))
	if err != nil {
		m.t.Fatalf("os.ReadFile: %v", err)
	}
	for _, match := range regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllSubmatch(text, -1) {
		values = append(values, string(match[1]))
	}
	if len(values) == 0 {
		m.t.Fatalf("%s has no %s=", unit, name)
	}
	return values
}

// withPort returns an address of package net for one of a socket unit, in which a port can stand
// alone.
func withPort(addr string) string {
	if strings.Contains(addr, ":") {
		return addr
	}
	return ":" + addr
}

// listen opens the sockets of the socket unit.
func (m *manager) listen() {
	m.t.Helper()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // as systemd
	for _, addr := range m.setting("socket", "ListenStream") {
		l, err := lc.Listen(context.Background(), "tcp", withPort(addr))
		if err != nil {
			m.t.Fatalf("Listen: %v", err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			m.t.Fatalf("File: %v", err)
		}
		l.Close()
		m.sockets = append(m.sockets, f)
	}
	for _, addr := range m.setting("socket", "ListenDatagram") {
		c, err := lc.ListenPacket(context.Background(), "udp", withPort(addr))
		if err != nil {
			m.t.Fatalf("ListenPacket: %v", err)
		}
		f, err := c.(*net.UDPConn).File()
		if err != nil {
			m.t.Fatalf("File: %v", err)
		}
		c.Close()
		m.sockets = append(m.sockets, f)
	}
}

// environment returns the variables from EnvironmentFile=.
func (m *manager) environment() map[string]string {
	all := map[string]string{}
	for _, name := range m.setting("service", "EnvironmentFile") {
		text, err := os.ReadFile(filepath.Join(m.root, strings.TrimPrefix(name, "-")))
		if err != nil {
			m.t.Fatalf("os.ReadFile: %v", err)
		}
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key[0] != '#' {
				all[key] = strings.Trim(value, `"`)
			}
		}
	}
	return all
}

// commandLine returns ExecStart= with its variables, which stand for words.
func (m *manager) commandLine() (words []string) {
	env := m.environment()
	for word := range strings.FieldsSeq(m.setting("service", "ExecStart")[0]) {
		if name, ok := strings.CutPrefix(word, "$"); ok {
			words = append(words, strings.Fields(env[name])...)
			continue
		}
		words = append(words, word)
	}
	return words
}

func (m *manager) start() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.startLocked(); err != nil {
		m.t.Fatalf("startLocked: %v", err)
	}
}

// startLocked starts the server and returns when it has reported that it serves.
func (m *manager) startLocked() error {
	for setting, below := range map[string]string{"StateDirectory": "var/lib", "RuntimeDirectory": "run", "LogsDirectory": "var/log", "ConfigurationDirectory": "etc"} {
		if err := os.MkdirAll(filepath.Join(m.root, below, m.setting("service", setting)[0]), 0o700); err != nil {
			return err
		}
	}
	bounds := "-all"
	for capability := range strings.FieldsSeq(m.setting("service", "CapabilityBoundingSet")[0]) {
		bounds += ",+" + strings.ToLower(strings.TrimPrefix(capability, "CAP_"))
	}
	args := append([]string{m.root, "sh", "-c", `export LISTEN_PID=$$; exec "$@"`, "sh", "setpriv", "--bounding-set=" + bounds, "--no-new-privs"}, m.commandLine()...)
	cmd := exec.Command("chroot", args...)
	cmd.Env = append(os.Environ(), fmt.Sprint("LISTEN_FDS=", len(m.sockets)), "NOTIFY_SOCKET=/run/notify")
	cmd.ExtraFiles = m.sockets
	log, err := os.OpenFile(filepath.Join(m.root, "run/server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd, m.starts = cmd, m.starts+1
	return m.awaitReady()
}

// awaitReady returns when the server has sent READY=1.
func (m *manager) awaitReady() error {
	if err := m.ready.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	for b := make([]byte, 4096); ; {
		n, err := m.ready.Read(b)
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(m.root, "run/server.log"))
			return fmt.Errorf("the server does not become ready: %w\n%s", err, log)
		}
		if strings.Contains(string(b[:n]), "READY=1") {
			return nil
		}
	}
}

// stop ends the server as an administrator does.
func (m *manager) stop() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.stopLocked(); err != nil {
		m.t.Fatalf("stopLocked: %v", err)
	}
}

// stopLocked ends the server as systemd does, and waits for it.
func (m *manager) stopLocked() error {
	if m.cmd == nil {
		return nil
	}
	cmd := m.cmd
	m.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return cmd.Wait()
}

func put(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
}
