// Files and processes that metadata services leave.

package juicefstest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// sharedBy returns the System V shared memory that a process has made.
func sharedBy(t *testing.T, pid int) (list []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		// the columns are: key shmid perms size cpid
		if f := strings.Fields(line); len(f) > 4 && f[4] == fmt.Sprint(pid) {
			list = append(list, line)
		}
	}
	return list
}

// TestPostgresLeavesNoSharedMemory: no shared memory remains of a cluster that runs when the test
// ends, or that was killed and started again.
func TestPostgresLeavesNoSharedMemory(t *testing.T) {
	var pids []int
	t.Run("cluster", func(t *testing.T) {
		p, _ := Postgres(t)
		pids = append(pids, p.cmd.Process.Pid)
		if len(sharedBy(t, pids[0])) == 0 {
			t.Error("PostgreSQL has no shared memory that could be left")
		}
		p.Kill()
		p.Start()
		pids = append(pids, p.cmd.Process.Pid)
	})
	for _, pid := range pids {
		if left := sharedBy(t, pid); len(left) > 0 {
			t.Errorf("process %d leaves %q", pid, left)
		}
	}
}
