// CPU times: of this process, of another process, and parsed from the kernel's lines.

package bench

import (
	"os"
	"testing"
	"time"
)

func TestStatIsParsed(t *testing.T) {
	const rest = " S 1 2 3 0 -1 4194560 100 0 0 0 70 12 5 6 20 0 1 0 100"
	for line, want := range map[string]time.Duration{
		"1 (nfsrdmad)" + rest: 820 * time.Millisecond,
		// a name in which ") S" looks like the end of the name's field
		"1 (a) S 9 (b)" + rest:                    820 * time.Millisecond,
		"1 (x) S 1 2 3 0 -1 4194560 100 0 0 0 70": 0,
		"1 (x) S 1 2 3 0 -1 4 100 0 0 0 x 12 5":   0,
		"":                                        0,
	} {
		if got := parseStat([]byte(line)); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

// Both meters see the CPU time of a busy process.
func TestMeterCountsWork(t *testing.T) {
	used := cpuMeter(os.Getpid())
	var got cpuTime
	for start := time.Now(); got.client < 3*userTick || got.server < 2*userTick; got = used() {
		if time.Since(start) > time.Minute {
			t.Fatalf("a minute of work counts as %+v", got)
		}
	}
	if got := cpuMeter(0)(); got.server != 0 {
		t.Errorf("no server has used %v", got.server)
	}
	if got := processCPU(1 << 30); got != 0 {
		t.Errorf("a process that there is not has used %v", got)
	}
}
