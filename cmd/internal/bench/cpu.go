// The CPU time that a test takes, of this process and of a server on the same machine.

package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A cpuTime is user and system time together. 0 of the server: it is not known.
type cpuTime struct{ client, server time.Duration }

// cpuMeter begins to count; the function that it returns tells what has been used since.
func cpuMeter(serverPID int) func() cpuTime {
	client, server := ownCPU(), processCPU(serverPID)
	return func() cpuTime { return cpuTime{ownCPU() - client, processCPU(serverPID) - server} }
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// processCPU is what a process has used, all its threads and those that have ended; 0
// when there is none or it is not known.
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

// userTick is the unit of times in /proc on every architecture of Linux that Go has.
const userTick = 10 * time.Millisecond

// parseStat reads utime and stime out of /proc/PID/stat (proc(5)): the 14th and 15th
// field, counted from the last parenthesis, as the name before it can hold anything.
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
