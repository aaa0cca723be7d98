// A test in a network of its own: there is one port 111 on each, and one socket of rpcbind below
// /run.

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

// apartEnv is set in the process that Apart has started.
const apartEnv = "NFSRDMA_TEST_APART"

// LeaveMounts is for the beginning of a shell script in a mount namespace of its own, which lets go
// of the mounts of tests beside it: their ends would wait for its, and what they mount once more
// would be in use. The one at the directory that is the shell's word but stays.
func LeaveMounts(but string) string {
	return `awk '$2 ~ "^/(tmp|dev/shm)/" || $3 == "fuse.nfsrdma" {print $2}' /proc/mounts | sort -r | while read -r dir; do dir=$(printf %b "$dir")
case ` + but + ` in "$dir" | "$dir"/*) ;; *) umount -l "$dir" || true;; esac; done; `
}

// Apart runs a test once more in a process of its own, whose network, mounts and /run no other test
// has, and reports whether this is that process; elsewhere the test has ended as that one has. It
// begins a test, as
//
//	if !machine.Apart(t) {
//		return
//	}
//
// and needs root, and the tools.
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
	if strings.Contains(out, "--- SKIP: "+t.Name()+" ") { // has been noted there
		t.Skip(out)
	}
	if err != nil || !strings.Contains(out, "--- PASS: "+t.Name()+" ") {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// apart runs a test in namespaces of its own and returns what it said. It ends with this process.
func apart(test string) (out string, err error) {
	runtime.LockOSThread() // the parent-death signal is tied to this thread
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
