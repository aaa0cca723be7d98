// A test's CPU time, for this process and for a server on the same machine.

package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A cpuTime is user plus system time. server is 0 if the server's time is unknown.
type cpuTime struct{ client, server time.Duration }

// cpuMeter starts counting; the returned function gives the CPU time used since.
func cpuMeter(serverPID int) func() cpuTime {
	client, server := ownCPU(), processCPU(serverPID)
	return func() cpuTime { return cpuTime{ownCPU() - client, processCPU(serverPID) - server} }
}

// ownCPU returns this process's CPU time so far.
func ownCPU() time.Duration {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// processCPU returns a process's CPU time so far, including ended threads; 0 if there is no such
// process or the time is unknown.
func processCPU(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseStat(stat)
}

// userTick is the time unit in /proc on all of Go's Linux architectures.
const userTick = 10 * time.Millisecond

// parseStat reads utime and stime from /proc/PID/stat (proc(5)), fields 14 and 15. It counts from
// the last parenthesis, because the name before it can contain anything.
func parseStat(stat []byte) time.Duration {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * userTick
}
