// What the kernel says of its processors.

package procs

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const stat = `cpu  66 20 66 900 0 0 24 30 0 0
cpu0 10 1 20 300 9 8 4 10 7 7
cpu1 26 9 26 300 9 8 10 10 7 7
cpu12 30 10 20 300 9 8 10 10 0 0
intr 4900396 0 0 1
ctxt 1
`

func cpuSet(cpus ...int) *unix.CPUSet {
	s := &unix.CPUSet{}
	for _, c := range cpus {
		s.Set(c)
	}
	return s
}

func TestStatIsParsed(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		text string
		of   *unix.CPUSet
		want machine
	}{
		{"all", stat, cpuSet(0, 1, 12), machine{cpus: 3, busy: 1760 * ms, stolen: 300 * ms}},
		{"ours alone", stat, cpuSet(1), machine{cpus: 1, busy: 710 * ms, stolen: 100 * ms}},
		{"one that is not there", stat, cpuSet(0, 2), machine{cpus: 1, busy: 350 * ms, stolen: 100 * ms}},
		{"old kernels have no steal", "cpu0 1 2 3 4 5 6 7\n", cpuSet(0), machine{}},
		{"not a number", "cpu0 1 2 x 4 5 6 7 8\ncpu1 1 0 0 0 0 0 0 0\n", cpuSet(0, 1), machine{cpus: 1, busy: 10 * ms}},
		{"number out of range", "cpu99999999 1 2 3 4 5 6 7 8\n", cpuSet(0), machine{}},
		{"negative number", "cpu-1 1 2 3 4 5 6 7 8\n", cpuSet(0), machine{}},
		{"nothing", "", cpuSet(0), machine{}},
		{"something else", "intr 1 2 3\n", cpuSet(0), machine{}},
	} {
		if got := parseStat([]byte(c.text), c.of); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What is cut counts no processor in part.
func TestStatThatIsCut(t *testing.T) {
	all := cpuSet(0, 1, 12)
	for n := range len(stat) {
		want := strings.Count(stat[:n], "\n") - 1
		if got := parseStat([]byte(stat[:n]), all).cpus; got != min(max(want, 0), 3) {
			t.Errorf("%d processors in %q", got, stat[:n])
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte(stat))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s := parseStat(text, cpuSet(0, 1)); s.cpus < 0 || s.cpus > len(text) {
			t.Errorf("%d processors", s.cpus)
		}
	})
}

// What this process does is seen in the machine's times and in its own, and to look allocates nothing.
func TestMeterSeesWork(t *testing.T) {
	m, err := newMeter()
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	before := m.read()
	if before.cpus < 1 {
		t.Fatalf("%+v", before)
	}
	for now, start := before, time.Now(); now.own-before.own < 5*userTick || now.busy-before.busy < 2*userTick; now = m.read() {
		if time.Since(start) > time.Minute {
			t.Fatalf("a minute of work: %+v, then %+v", before, now)
		}
	}
	if n := testing.AllocsPerRun(100, func() { m.read() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
