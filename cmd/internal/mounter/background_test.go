// The background process: its arguments, its report, and the exit status after its end.

package mounter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// parts has the roles of the tests' child processes. Each returns its exit status.
var parts = map[string]func(args []string) int{
	"facts": func(args []string) int {
		dir, _ := os.Getwd()
		leader := func() bool {
			sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
			return int(sid) == os.Getpid()
		}
		log, err := NewLog(os.Stderr, args[0], true)
		if err != nil {
			return 98
		}
		log.Line(fmt.Sprintf("%s in %s, with its parent %v", os.Args[0], dir, syscall.Getpgrp() == parentGroup()))
		ReportReady(ReadyFD, log)
		log.Line(fmt.Sprintf("after, leader %v", leader()))
		fmt.Fprintln(os.Stderr, "to the terminal")
		return 0
	},
	"panics": func(args []string) int {
		ownDir = func() (string, error) { return args[1], nil }
		log, err := NewLog(os.Stderr, args[0], true)
		if err != nil {
			return 98
		}
		ReportReady(ReadyFD, log)
		panic("a fault of ours")
	},
	"fails": func([]string) int {
		fmt.Fprintln(os.Stderr, "nfsrdma: srv:/x: refused")
		return 32
	},
	"leaves": func([]string) int { return 0 },
	"dies": func([]string) int {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	},
	"waits": func([]string) int {
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "waiting")
		<-end
		fmt.Fprintln(os.Stderr, "ended")
		return 0
	},
}

// parentGroup returns the process group of this process's parent.
func parentGroup() int {
	group, _ := syscall.Getpgid(os.Getppid())
	return group
}

// terminal returns a pipe as standard error for children; reading ends when no process has it open.
func terminal(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must.Succeed(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Background returns once the mount works. Its process runs in /, so it keeps no directory busy. It
// stays in its parent's process group until the mount works, because automount points let that
// group through. Then it leaves the group and the terminal, and writes to the log file.
func TestBackgroundReturnsWhenTheMountWorks(t *testing.T) {
	out, stderr := terminal(t)
	file := filepath.Join(t.TempDir(), "log")
	must.Succeed(t, Background(t.Context(), []string{"facts", file}, stderr))
	stderr.Close()
	said, err := io.ReadAll(out) // returns when the child has ended or closed its terminal
	if want := "nfsrdma: nfsrdma in /, with its parent true\n"; err != nil || string(said) != want {
		t.Errorf("on the terminal %q, %v; want %q", said, err, want)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("no log file: %v", err)
	}
}

// A background process's crash output is in the log file, or without one in a file beside the
// process's socket.
func TestFaultInTheBackgroundIsKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	for _, f := range []struct{ flag, kept string }{{file, file}, {"", filepath.Join(dir, crashLogFile)}} {
		out, stderr := terminal(t)
		must.Succeed(t, Background(t.Context(), []string{"panics", f.flag, dir}, stderr))
		stderr.Close()
		_, err := io.ReadAll(out)
		must.Succeed(t, err)
		said := func() bool {
			b, _ := os.ReadFile(f.kept)
			return strings.Contains(string(b), "panic: a fault of ours\n\ngoroutine ")
		}
		for range 3000 { // waits: the process releases the terminal before it dies
			if said() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !said() {
			t.Errorf("%s does not say it", f.kept)
		}
	}
}

// The crash log is kept by later processes, and truncated when it is too long.
func TestLastWordsAreBounded(t *testing.T) {
	dir, real := t.TempDir(), ownDir
	ownDir = func() (string, error) { return dir, nil }
	defer func() { ownDir = real }()
	name := filepath.Join(dir, crashLogFile)
	for size, want := range map[int64]int64{maxCrashLog: maxCrashLog, maxCrashLog + 1: 0} {
		must.Succeed(t, os.WriteFile(name, make([]byte, size), 0o600))
		f, err := openCrashLog()
		must.Succeed(t, err)
		f.Close()
		if st, err := os.Stat(name); err != nil || st.Size() != want {
			t.Errorf("of %d bytes %v are left, %v; want %d", size, st, err, want)
		}
	}
}

// A mount that fails before it works ends with its exit status, and prints only its own line.
func TestBackgroundGivesTheExitStatus(t *testing.T) {
	for part, want := range map[string]string{"fails": "", "leaves": "exit status 0", "dies": "signal: killed"} {
		out, stderr := terminal(t)
		err := Background(t.Context(), []string{part}, stderr)
		stderr.Close()
		said, _ := io.ReadAll(out)
		var exit cli.ExitError
		switch {
		case part == "fails":
			if !errors.As(err, &exit) || exit != 32 || string(said) != "nfsrdma: srv:/x: refused\n" {
				t.Errorf("%s: %v, %q", part, err, said)
			}
		case err == nil || errors.As(err, &exit) || !strings.HasSuffix(err.Error(), "ended before the mount worked: "+want) || len(said) > 0:
			t.Errorf("%s: %v, %q", part, err, said)
		}
	}
}

// Ctrl-C also ends the background process, with a signal that this process can handle, and
// Background waits for its end.
func TestInterruptedBackground(t *testing.T) {
	out, stderr := terminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- Background(ctx, []string{"waits"}, stderr)
		stderr.Close()
	}()
	line := make([]byte, len("waiting\n"))
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "waiting\n" {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if said, err := io.ReadAll(out); err != nil || string(said) != "ended\n" {
		t.Errorf("%q, %v", said, err)
	}
}

// Lines after the report are in the log file, with time and process; earlier ones are not.
func TestLogAfterTheReport(t *testing.T) {
	out, stderr := terminal(t)
	file := filepath.Join(t.TempDir(), "log")
	must.Succeed(t, Background(t.Context(), []string{"facts", file}, stderr))
	for {
		// Background has released our child, and other tests may have children, so wait for all
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			break
		}
	}
	stderr.Close()
	_, _ = io.Copy(io.Discard, out)
	b, err := os.ReadFile(file)
	if text := string(b); err != nil || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "]: after, leader true\n") || !strings.Contains(text, " nfsrdma[") {
		t.Errorf("%q, %v", b, err)
	}
}
