// The seeds: child processes that run them one by one, each on one processor, so that a run can be
// repeated.

package sim

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/sim/preempt"
)

var (
	flagSeed  = flag.Int64("seed", -1, "run this seed alone, and trace it with -v")
	flagFirst = flag.Uint64("first", 0, "the first seed")
	flagCount = flag.Int("count-seeds", 0, "how many seeds; 0: as NFSRDMA_SIM_SEEDS says, else 200")
	flagChild = flag.Bool("child", false, "for the test's own use")
)

const (
	block     = 50               // seeds of one child process
	stuckCPU  = 20 * time.Second // a child ends a seed within this processor time
	stuckReal = 5 * time.Minute  // and within this real time, in case a run waits for itself
	announced = "seed "
)

// TestSeeds runs many seeds, or repeats one.
func TestSeeds(t *testing.T) { seeds(t, "TestSeeds", run) }

// seeds runs the seeds in child processes. A single requested seed has one child.
func seeds(t *testing.T, name string, one func(*testing.T, uint64, bool) []string) {
	switch {
	case *flagChild && *flagSeed >= 0:
		runtime.GOMAXPROCS(1)
		oneSeed(t, name, one, uint64(*flagSeed), testing.Verbose())
	case *flagSeed >= 0:
		cmd := exec.Command(program(t), "-test.run=^"+name+"$", fmt.Sprintf("-test.v=%v", testing.Verbose()), "-child", fmt.Sprintf("-seed=%d", *flagSeed))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			t.Errorf("cmd.Run: %v", err)
		}
	case *flagChild:
		runtime.GOMAXPROCS(1)
		for i := range *flagCount {
			fmt.Printf("%s%d\n", announced, *flagFirst+uint64(i))
			oneSeed(t, name, one, *flagFirst+uint64(i), false)
		}
	default:
		t.Parallel()
		children(t, name)
	}
}

func oneSeed(t *testing.T, name string, one func(*testing.T, uint64, bool) []string, seed uint64, trace bool) {
	t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		preempt.Seed(seed, []int{0, 2, 3, 4, 16}[newRand(seed, purposePreempt).IntN(5)])
		for i, f := range one(t, seed, trace) {
			if i == 0 {
				t.Errorf("again: %s", replay(name, seed))
			}
			t.Errorf("seed %d: %s", seed, f)
		}
	})
}

func replay(name string, seed uint64) string {
	return fmt.Sprintf("go test ./test/sim -run '^%s$' -seed=%d -v", name, seed)
}

// count returns the requested number of seeds.
func count(t *testing.T) int {
	if *flagCount > 0 {
		return *flagCount
	}
	s := os.Getenv("NFSRDMA_SIM_SEEDS")
	if s == "" {
		return 200
	}
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		t.Fatalf("NFSRDMA_SIM_SEEDS is %q", s)
	}
	return n
}

// children runs blocks of seeds, as many at a time as there are processors.
func children(t *testing.T, name string) {
	n := count(t)
	program(t) // built once, before the children need it
	blocks := make(chan uint64, n/block+1)
	for at := 0; at < n; at += block {
		blocks <- *flagFirst + uint64(at)
	}
	close(blocks)
	last := *flagFirst + uint64(n)
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for first := range blocks {
				if !t.Failed() {
					child(t, name, first, min(block, int(last-first)))
				}
			}
		})
	}
	all.Wait()
}

// child runs count seeds in their own process. A child without progress is asked for its
// goroutines.
func child(t *testing.T, name string, first uint64, count int) {
	cmd := exec.Command(program(t), "-test.run=^"+name+"$", "-test.timeout=0", "-child",
		fmt.Sprintf("-first=%d", first), fmt.Sprintf("-count-seeds=%d", count))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Errorf("StdoutPipe: %v", err)
		return
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Errorf("cmd.Start: %v", err)
		return
	}
	seen := make(chan struct{}, 1) // a line has come
	ended := make(chan struct{})
	defer close(ended)
	go watch(cmd.Process, seen, ended)
	var said strings.Builder
	at := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		select {
		case seen <- struct{}{}:
		default:
		}
		if s, ok := strings.CutPrefix(lines.Text(), announced); ok {
			at = s
			continue
		}
		fmt.Fprintln(&said, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		seed, _ := strconv.ParseUint(at, 10, 64)
		t.Errorf("%v; the last seed was %d; again: %s\n%s%s", err, seed, replay(name, seed),
			clip(said.String()), clip(stderr.String()))
	}
}

// watch asks a child without progress for its goroutines. Its computing time counts: on a machine
// that is busy elsewhere it may wait for long.
func watch(child *os.Process, seen, ended <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	since, used := time.Now(), cpuTime(child)
	for {
		select {
		case <-ended:
			return
		case <-seen:
			since, used = time.Now(), cpuTime(child)
			continue
		case <-tick.C:
		}
		if time.Since(since) > stuckReal || cpuTime(child)-used > stuckCPU {
			child.Signal(syscall.SIGQUIT)
			return
		}
	}
}

// cpuTime returns the processor time that a process has used so far, 0 where it is unknown.
func cpuTime(p *os.Process) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	_, rest, ok := strings.Cut(string(b), ") ") // the name before may hold anything
	f := strings.Fields(rest)
	if err != nil || !ok || len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64) // fields 14 and 15 of proc(5), in ticks of 10 ms
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// clip shortens stacks for a reader: it drops the runtime's frames, and lines after 30,000 bytes.
func clip(s string) string {
	var kept strings.Builder
	skip := false
	for line := range strings.Lines(s) {
		place := strings.HasPrefix(line, "\t")
		if !place {
			skip = strings.HasPrefix(line, "runtime.")
		}
		if !skip && kept.Len() < 30000 {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
