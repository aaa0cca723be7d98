// What the machine's processors do, by proc(5).

package procs

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// userTick is the unit of times in /proc on every architecture of Linux that Go has.
const userTick = 10 * time.Millisecond

// The columns of /proc/stat after the name of a processor, up to what a hypervisor has not given it.
const (
	statUser = iota
	statNice
	statSystem
	statIdle
	statIOWait
	statIRQ
	statSoftIRQ
	statSteal
	statFields
)

// A meter reads what the kernel counts. It allocates nothing once it is made.
type meter struct {
	file *os.File
	cpus unix.CPUSet
	text []byte
}

func newMeter() (*meter, error) {
	m := &meter{text: make([]byte, 4<<10)}
	if err := unix.SchedGetaffinity(0, &m.cpus); err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/stat")
	m.file = f
	return m, err
}

func (m *meter) close() { _ = m.file.Close() }

// read is the machine now, or zero where the kernel does not tell.
func (m *meter) read() machine {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now) != nil {
		return machine{}
	}
	n, _ := unix.Pread(int(m.file.Fd()), m.text, 0)
	s := parseStat(m.text[:max(n, 0)], &m.cpus)
	s.own = time.Duration(now.Nano())
	return s
}

// parseStat sums up the lines of those processors that are in cpus. What is cut off at the end of text is not there.
func parseStat(text []byte, cpus *unix.CPUSet) (s machine) {
	for line := range bytes.Lines(text) {
		rest, is := bytes.CutPrefix(line, []byte("cpu"))
		if !is || !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		f, ok := parseLine(rest)
		if !ok || !cpus.IsSet(int(f.cpu)) {
			continue
		}
		s.cpus++
		s.busy += userTick * time.Duration(f.times[statUser]+f.times[statNice]+f.times[statSystem]+f.times[statSoftIRQ])
		s.stolen += userTick * time.Duration(f.times[statSteal])
	}
	return s
}

// A statLine is what /proc/stat says of one processor.
type statLine struct {
	cpu   int64
	times [statFields]int64
}

// parseLine reads the number of a processor and its times; the line of all together has no number.
func parseLine(line []byte) (l statLine, ok bool) {
	if len(line) == 0 || line[0] == ' ' {
		return l, false
	}
	i := 0
	for word := range bytes.FieldsSeq(line) {
		n, err := strconv.ParseInt(string(word), 10, 64) // which allocates no string
		switch {
		case err != nil:
			return l, false
		case i == 0:
			l.cpu = n
		case i <= statFields:
			l.times[i-1] = n
		}
		i++
	}
	return l, i > statFields
}
