// nfsrdma top: its errors, its lines, and its screen on a pseudoterminal.

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

func TestTopRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"which server?":                               {"top"},
		"leave SERVER out":                            {"top", "--local", "server"},
		"--control needs --local":                     {"top", "--control", "/x", "server"},
		"want HOST":                                   {"top", "a/b"},
		"want 100ms or more":                          {"top", "--interval", "1ms", "server"},
		"must be 0 or more":                           {"top", "--count", "-1", "server"},
		"want calls, bytes":                           {"top", "--sort", "size", "server"},
		"needs --metrics-addr ADDRESS":                {"top", "--count", "1", "127.0.0.1:1"},
		"start one with nfsrdmad serve":               {"top", "--local", "--control", filepath.Join(t.TempDir(), "none")},
		"too many arguments":                          {"top", "a", "b"},
		"--interval TIME    TIME between two reports": {"top", "--help"},
	} {
		out, errOut, code := try(t, args...)
		if help := args[1:]; len(help) > 0 && help[0] == "--help" {
			errOut = out
		} else if code == 0 || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%v: status %d, %q", args, code, errOut)
		}
		if !strings.Contains(errOut, want) {
			t.Errorf("%v: %q, want %q", args, errOut, want)
		}
	}
}

// counting starts a server whose metrics grow with every request. When hidden is true, the server
// fails requests.
func counting(t *testing.T) (addr string, hidden *atomic.Bool) {
	t.Helper()
	var n atomic.Int64
	hidden = new(atomic.Bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if hidden.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "nfsrdma_calls_total{procedure=\"READ\",program=\"nfs\",transport=\"rdma\"} %d\nprocess_start_time_seconds 5\n", 1000*n.Add(1))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), hidden
}

func TestTopLines(t *testing.T) {
	addr, _ := counting(t)
	out := nfs(t, "top", "--interval", "100ms", "--count", "2", addr)
	if strings.Count(out, "\nREAD       rdma ") != 2 || strings.Contains(out, "\x1b") {
		t.Errorf("%s", out)
	}
}

// A pty is a pseudoterminal with a program on it.
type pty struct {
	master, slave *os.File
	cmd           *exec.Cmd
	before        unix.Termios
	end           chan error

	mu  sync.Mutex
	all strings.Builder // the program's output; guarded by mu
}

// onTerminal runs the program on a terminal of 90 columns and 20 lines.
func onTerminal(t *testing.T, env []string, args ...string) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		machine.Skip(t, "needs pseudo terminals: "+err.Error())
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("os.OpenFile: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	p := &pty{master: master, slave: slave, end: make(chan error, 1)}
	p.resize(t, 90, 20)
	p.before = p.termios(t)
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(append(os.Environ(), child.Env, "TERM=xterm"), env...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go p.read()
	go func() { p.end <- p.cmd.Wait() }()
	return p
}

func (p *pty) read() {
	b := make([]byte, 4096)
	for {
		n, err := p.master.Read(b)
		p.mu.Lock()
		p.all.Write(b[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *pty) resize(t *testing.T, columns, lines uint16) {
	t.Helper()
	must.Succeed(t, unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines}))
}

func (p *pty) termios(t *testing.T) unix.Termios {
	t.Helper()
	as, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatalf("unix.IoctlGetTermios: %v", err)
	}
	return *as
}

// written returns the output so far.
func (p *pty) written() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// await waits until the output from byte after on contains a word, and returns the output's length.
func (p *pty) await(t *testing.T, after int, word string) int {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		all := p.written()
		if strings.Contains(all[after:], word) {
			return len(all)
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("no %q in %d bytes that end with %q", word, len(all)-after, all[max(after, len(all)-1500):])
		}
	}
}

func (p *pty) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		t.Fatalf("WriteString: %v", err)
	}
}

// ended waits until the program ends, and checks that it has restored the terminal.
func (p *pty) ended(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.end:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the program does not end")
	}
	p.await(t, 0, "\x1b[?25h\x1b[?1049l")
	if as := p.termios(t); as != p.before {
		t.Errorf("the terminal is left as %+v, was %+v", as, p.before)
	}
}

// TestTopScreen: keys work, the screen follows the terminal's size, the program survives a server's
// absence, and q ends it.
func TestTopScreen(t *testing.T) {
	addr, hidden := counting(t)
	p := onTerminal(t, nil, "top", "--interval", "200ms", addr)
	at := p.await(t, 0, "\x1b[?1049h")
	at = p.await(t, at, "\x1b[7mOPERATION")
	if as := p.termios(t); as.Lflag&(unix.ICANON|unix.ECHO) != 0 || as.Lflag&unix.ISIG == 0 {
		t.Errorf("flags %x", as.Lflag)
	}
	p.press(t, "\x1b[A\x1bOn\x1b[1;5cp") // arrow sequences, which are no keys, and then p
	at = p.await(t, at, "every 200ms, by p99")
	p.press(t, "+")
	at = p.await(t, at, "every 400ms, by p99")
	p.press(t, "h")
	at = p.await(t, at, "calls of it that ran at once")
	p.press(t, "h ")
	at = p.await(t, at, "\nREAD ")
	p.resize(t, 30, 8)
	at = p.await(t, at, "every 400ms, by p99   q quit  "+"\x1b[K\x1b[J")
	hidden.Store(true)
	at = p.await(t, at, "no answer: http://127.0.0.1:")
	hidden.Store(false)
	p.await(t, at, "every 400ms")
	p.press(t, "q")
	p.ended(t)
}

// TestTopSuspended: Ctrl-Z restores the terminal until the program continues, Ctrl-C ends it, and
// NO_COLOR is respected.
func TestTopSuspended(t *testing.T) {
	addr, _ := counting(t)
	p := onTerminal(t, []string{"NO_COLOR=1"}, "top", "--interval", "100ms", addr)
	at := p.await(t, 0, "OPERATION")
	// The terminal does not stop a process group without a parent in its session, so the test sends
	// the signal.
	if err := p.cmd.Process.Signal(unix.SIGTSTP); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	at = p.await(t, at, "\x1b[?1049l")
	for begin := time.Now(); p.termios(t) != p.before || !stopped(t, p.cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("the program is not stopped (%v), or the terminal is %+v, was %+v", stopped(t, p.cmd.Process.Pid), p.termios(t), p.before)
		}
	}
	if err := p.cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	at = p.await(t, at, "\x1b[?1049h")
	p.await(t, at, "\nREAD ")
	p.press(t, "\x03")
	p.ended(t)
	if all := p.written(); strings.Contains(strings.ReplaceAll(all, "\x1b[0m\x1b[?25h", ""), "\x1b[0m") || strings.Contains(all, "\x1b[7m") || strings.Contains(all, "\x1b[1m") {
		t.Errorf("attributes in spite of NO_COLOR: %q", all)
	}
}

// stopped reports whether a process is stopped.
func stopped(t *testing.T, pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "T")
}
