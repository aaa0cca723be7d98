// Clocks that a test sets: the programs are built with a time.Now that adds the test's offsets to
// both clocks of the machine.

package changing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// timeSource is a file of package time.
const timeSource = `package time

import "sync/atomic"

// TestWall and TestMono are nanoseconds that are added to the machine's clocks; timers ignore
// TestMono.
var TestWall, TestMono atomic.Int64

func testNow() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = runtimeNow()
	at := int64(nsec) + TestWall.Load()%1e9 + 1e9
	return sec + TestWall.Load()/1e9 + at/1e9 - 1, int32(at % 1e9), mono + TestMono.Load()
}

func testNano() int64 { return runtimeNano() + TestMono.Load() }
`

// clockSource is a file added to both programs. It sets their clocks as requested through a socket.
const clockSource = `package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

func init() {
	at := os.Getenv("NFSRDMA_TEST_CLOCK")
	if at == "" {
		return
	}
	l, err := net.Listen("unix", at)
	if err != nil { // a program that this one has started
		return
	}
	os.Unsetenv("NFSRDMA_TEST_CLOCK")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				panic(err)
			}
			var wall, mono int64
			fmt.Fscan(c, &wall, &mono)
			time.TestWall.Store(wall)
			time.TestMono.Store(mono)
			fmt.Fprintln(c, "set")
			c.Close()
		}
	}()
}
`

// buildWithClocks builds both programs in a directory.
func buildWithClocks(dir string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	b, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return err
	}
	for old, changed := range map[string]string{"mono := runtimeNow()": "mono := testNow()", "runtimeNano()-startNano": "testNano()-startNano"} {
		if !bytes.Contains(b, []byte(old)) {
			return fmt.Errorf("package time has no %s", old)
		}
		b = bytes.ReplaceAll(b, []byte(old), []byte(changed))
	}
	repo, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for path, content := range map[string]string{
		filepath.Join(source, "time.go"):                     string(b),
		filepath.Join(source, "testclock.go"):                timeSource,
		filepath.Join(repo, "cmd", "nfsrdmad", "clock.go"):   clockSource,
		filepath.Join(repo, "cmd", "nfsrdma", "zz_clock.go"): clockSource,
	} {
		replace[path] = filepath.Join(dir, fmt.Sprintf("source%d.go", len(replace)))
		if err := os.WriteFile(replace[path], []byte(content), 0o600); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir+"/", "./cmd/nfsrdma", "./cmd/nfsrdmad")
	cmd.Dir = repo
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// A clock sets the clocks of one process, through its socket.
type clock struct{ socket string }

func newClock(t *testing.T) clock {
	dir, err := os.MkdirTemp("", "clock-") // a name that is short enough for a socket
	must.Succeed(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return clock{filepath.Join(dir, "clock")}
}

func (c clock) env() string { return "NFSRDMA_TEST_CLOCK=" + c.socket }

// set sets the process's wall clock ahead of the machine's by wall, and its monotonic clock by
// passed.
func (c clock) set(t *testing.T, wall, passed time.Duration) {
	t.Helper()
	conn, err := net.Dial("unix", c.socket)
	must.Succeed(t, err)
	defer conn.Close()
	_, err = fmt.Fprintln(conn, int64(wall), int64(passed))
	must.Succeed(t, err)
	var word string
	_, err = fmt.Fscan(conn, &word)
	must.Succeed(t, err)
}
