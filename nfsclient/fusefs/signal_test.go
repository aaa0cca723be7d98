// Signals to a program during a call to a silent server.

package fusefs_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A program waiting for a silent server can be killed, even by a signal after others that do not
// end it.
func TestFatalSignalEndsAWait(t *testing.T) {
	m := mount(t, options{})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("data"), 0o600))
	m.say("stall")
	for _, first := range []syscall.Signal{0, syscall.SIGUSR1} {
		cmd := exec.Command("sh", "-c", "trap : USR1; echo; read line < "+m.at("file"))
		started, err := cmd.StdoutPipe()
		must.Succeed(t, err)
		must.Succeed(t, cmd.Start())
		_, err = started.Read(make([]byte, 1))
		must.Succeed(t, err)
		// By now the open is in flight, or the signal comes before it: both must work.
		time.Sleep(50 * time.Millisecond)
		if first != 0 {
			must.Succeed(t, cmd.Process.Signal(first))
			time.Sleep(50 * time.Millisecond)
		}
		must.Succeed(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err == nil {
			t.Error("the program ends well though the server is silent")
		}
	}
	m.say("go")
	if data, err := os.ReadFile(m.at("file")); err != nil || string(data) != "data" {
		t.Errorf("afterwards: %q, %v", data, err)
	}
}

// A handled signal fails no call: the call continues when the server answers.
func TestHandledSignalEndsNoCall(t *testing.T) {
	m := mount(t, options{})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("data\n"), 0o600))
	m.say("stall")
	cmd := exec.Command("sh", "-c", "trap : USR1; echo; read line < "+m.at("file")+" && test $line = data")
	started, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	_, err = started.Read(make([]byte, 1))
	must.Succeed(t, err)
	for range 5 {
		time.Sleep(50 * time.Millisecond)
		must.Succeed(t, cmd.Process.Signal(syscall.SIGUSR1))
	}
	time.Sleep(300 * time.Millisecond)
	m.say("go")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program was disturbed: %v", err)
	}
}
