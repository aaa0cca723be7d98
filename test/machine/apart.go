// A test in a separate network, because each network has only one port 111 and one rpcbind socket
// below /run.

package machine

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// apartEnv is set in processes started by Apart.
const apartEnv = "NFSRDMA_TEST_APART"

// LeaveMounts returns the start of a shell script for a new mount namespace. The script unmounts
// other tests' mounts there; otherwise those tests could not end before this test, and their mount
// points would be busy. The mount at the directory in the shell word but stays.
func LeaveMounts(but string) string {
	return `awk '$2 ~ "^/(tmp|dev/shm)/" || $3 == "fuse.nfsrdma" {print $2}' /proc/mounts | sort -r | while read -r dir; do dir=$(printf %b "$dir")
case ` + but + ` in "$dir" | "$dir"/*) ;; *) umount -l "$dir" || true;; esac; done; `
}

// Apart runs a test again in a process with a separate network, mounts and /run, and reports
// whether this is that process. In the original process the test ends with the other's result. A
// test begins with
//
//	if !machine.Apart(t) {
//		return
//	}
//
// and needs root and the tools.
func Apart(t *testing.T, tools ...string) (inside bool) {
	t.Helper()
	if os.Getenv(apartEnv) != "" {
		return true
	}
	for _, tool := range append(tools, "unshare", "mount", "ip") {
		if _, err := exec.LookPath(tool); err != nil || os.Geteuid() != 0 {
			Skip(t, "needs root and "+tool)
		}
	}
	out, err := apart(t.Name())
	if strings.Contains(out, "--- SKIP: "+t.Name()+" ") { // the process inside has noted the skip
		t.Skip(out)
	}
	if err != nil || !strings.Contains(out, "--- PASS: "+t.Name()+" ") {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// apart runs a test in new namespaces and returns the output. The test ends with this process.
func apart(test string) (out string, err error) {
	runtime.LockOSThread() // the parent-death signal belongs to this thread
	defer runtime.UnlockOSThread()
	script := LeaveMounts(`""`) + `mount -t tmpfs none /run && ip link set lo up && exec "$0" -test.run="^$1\$" -test.v`
	cmd := exec.Command("unshare", "-n", "-m", "--propagation", "private", "sh", "-c", script, os.Args[0], test)
	cmd.Env = append(os.Environ(), apartEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	return said.String(), err
}
