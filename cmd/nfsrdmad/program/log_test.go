// The server's log as read by a program.

package program

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/sirupsen/logrus"
)

// TestLogFormat: with --log-format json each line is an object; a mount's line has the client and
// the export.
func TestLogFormat(t *testing.T) {
	port := freePort(t)
	log := new(sharedBuffer)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeChild$")
	args := []string{"serve", "--memory", "--ephemeral-key", "--tcp-port", port, "--rdma-port", "0", "--rpcbind", "off", "--log-format", "json", "--control", t.TempDir() + "/c"}
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, "\n"))
	cmd.Stderr = log
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	awaitPort(t, "127.0.0.1:"+port)
	mounted(t, "127.0.0.1:"+port, "/memory", nfsclient.Options{Transport: nfsclient.TCP})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	_ = cmd.Wait()
	found := false
	for line := range strings.Lines(log.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("%v: %q", err, line)
			continue
		}
		when, _ := v["time"].(string)
		peer, _ := v["peer"].(string)
		if at, err := time.Parse(time.RFC3339Nano, when); err != nil || time.Since(at) > time.Hour || v["level"] == "" || v["msg"] == "" {
			t.Errorf("%v: %q", err, line)
		}
		if v["msg"] == "mount" && v["level"] == "info" && v["export"] == "/memory" && v["dir"] == "/memory" && v["transport"] == "tcp" && v["vers"] == 3.0 &&
			strings.HasPrefix(peer, "127.0.0.1:") {
			found = true
		}
	}
	if !found {
		t.Errorf("no mount in the log:\n%s", log)
	}
}

// TestLogHasNoControlCharacters: no path in a mount request puts control characters into the log.
func TestLogHasNoControlCharacters(t *testing.T) {
	const dir = "/a\x1b[2J\u009b2J\x7f\n"
	line := logrus.NewEntry(logrus.New()).WithField("dir", dir)
	for _, f := range []logrus.Formatter{&logrus.TextFormatter{DisableColors: true}, &jsonLog{}} {
		b, err := f.Format(line)
		if err != nil {
			t.Fatalf("Format: %v", err)
		}
		if b = bytes.TrimSuffix(b, []byte("\n")); bytes.ContainsFunc(b, unicode.IsControl) {
			t.Errorf("%q", b)
		}
		if _, ok := f.(*jsonLog); !ok {
			continue
		}
		var v struct{ Dir string }
		if err := json.Unmarshal(b, &v); err != nil || v.Dir != dir {
			t.Errorf("%q, %v", v.Dir, err)
		}
	}
}
