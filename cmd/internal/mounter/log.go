// The output of a mount's process: to a terminal, a file, or the system log.

package mounter

import (
	"fmt"
	"io"
	"log/syslog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"golang.org/x/sys/unix"
)

// A Log writes the lines of a mount's process. It is safe for concurrent use.
type Log struct {
	mu          sync.Mutex // guards to
	to          func(line string)
	afterDetach func(line string) // replaces to in Detach; nil: unchanged
	file        *os.File          // the file that lines go to, or nil
}

// NewLog writes to w in the form of the program's messages, or to a file if file is not empty. In
// the background, Detach switches from w to the system log.
func NewLog(w io.Writer, file string, background bool) (*Log, error) {
	l := &Log{to: func(line string) { fmt.Fprintln(w, "nfsrdma: "+line) }}
	switch {
	case file != "":
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--log-file: %w", err)
		}
		l.file = f
		l.afterDetach = func(line string) {
			fmt.Fprintf(f, "%s nfsrdma[%d]: %s\n", time.Now().Format(time.RFC3339), os.Getpid(), line)
		}
		if !background {
			l.to = l.afterDetach
		}
	case background:
		l.afterDetach = systemLog()
	}
	return l, nil
}

// systemLog returns a writer to the system log, if there is one.
func systemLog() func(string) {
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "nfsrdma")
	if err != nil {
		return func(string) {}
	}
	return func(line string) { _ = w.Notice(line) }
}

// Line writes one line.
func (l *Log) Line(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to(line)
}

// Detach leaves the terminal: standard error is discarded from now on, lines go to the log, and
// Go's crash output goes to a file.
func (l *Log) Detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.afterDetach != nil {
		l.to = l.afterDetach
	}
	redirectCrashOutput(l.file)
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		_ = unix.Dup3(int(null.Fd()), 2, 0)
		null.Close()
	}
}

// crashLogFile, in the directory of the user's sockets, has the crash output of mounts. A new
// process truncates the file if it exceeds maxCrashLog bytes.
const (
	crashLogFile = "crash.log"
	maxCrashLog  = 1 << 20
)

// redirectCrashOutput directs the Go runtime's crash output to a file: the log's file, if there is
// one.
func redirectCrashOutput(log *os.File) {
	f := log
	if f == nil {
		var err error
		if f, err = openCrashLog(); err != nil {
			return
		}
		defer f.Close()
	}
	_ = debug.SetCrashOutput(f, debug.CrashOptions{})
}

// ownDir is a variable for tests.
var ownDir = mountctl.OwnDir

func openCrashLog() (*os.File, error) {
	dir, err := ownDir()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, crashLogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err == nil && st.Size() > maxCrashLog {
		_ = f.Truncate(0)
	}
	return f, nil
}
