// Workers are programs that use a mount: this test binary again. The test's own process never
// touches a mount, because a process stuck there could not end.

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// workerEnv makes the test binary run the worker of that name; the binary's arguments are the
// worker's.
const workerEnv = "NFSRDMA_JUICEFS_WORKER"

// workers has the workers by name. Each runs one step per line of standard input, and writes a line
// per result.
var workers = map[string]func(args []string, lines *bufio.Scanner) error{
	"records": recordsWorker, "written": writtenWorker, "exchange": exchangeWorker, "count": countWorker, "token": tokenWorker, "hold": holdWorker,
	"names": namesWorker, "read": readWorker, "store": storeWorker,
}

// runWorker runs the named worker, and returns its exit status.
func runWorker(name string) int {
	if err := workers[name](os.Args[1:], bufio.NewScanner(os.Stdin)); err != nil {
		fmt.Println("FAIL:", err)
		return 1
	}
	return 0
}

// A worker is a running worker process.
type worker struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	over  chan struct{} // closed after the worker's last line

	mu    sync.Mutex // guards lines
	lines []string   // the results so far
}

// startWorker starts a worker, which ends with the test.
func startWorker(t *testing.T, name string, args ...string) *worker {
	t.Helper()
	w := &worker{t: t, name: name + " " + strings.Join(args, " "), cmd: exec.Command(os.Args[0], args...), over: make(chan struct{})}
	w.cmd.Env, w.cmd.Stderr = append(os.Environ(), workerEnv+"="+name), os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	go func() {
		defer close(w.over)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.mu.Lock()
			w.lines = append(w.lines, s.Text())
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.over
		_ = w.cmd.Wait() // returns an error if end has already waited
	})
	return w
}

// do makes the worker run n more steps.
func (w *worker) do(n int) {
	w.t.Helper()
	if _, err := io.WriteString(w.stdin, strings.Repeat("\n", n)); err != nil {
		w.t.Errorf("%s: %v, %q", w.name, err, w.results())
	}
}

// results returns the lines so far.
func (w *worker) results() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.lines...)
}

// has reports whether n lines have arrived. A worker's failure ends the test.
func (w *worker) has(n int) bool {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := len(w.lines); k > 0 && strings.HasPrefix(w.lines[k-1], "FAIL") {
		w.t.Fatalf("%s, after %d: %s", w.name, k-1, w.lines[k-1])
	}
	return len(w.lines) >= n
}

// await waits until n result lines have arrived.
func (w *worker) await(n int) {
	w.t.Helper()
	await(w.t, fmt.Sprintf("%s: %d results", w.name, n), func() bool { return w.has(n) })
}

// end ends the worker, and fails the test if the worker reported an error, or crashed without a
// line.
func (w *worker) end() {
	w.t.Helper()
	w.stdin.Close()
	<-w.over
	w.has(0)
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("%s: %v", w.name, err)
	}
}

// mustRun runs a worker to its end; the worker must find no errors.
func mustRun(t *testing.T, name string, args ...string) {
	t.Helper()
	w := startWorker(t, name, args...)
	w.end()
}
