// Schedules of several clients, drawn and checked by package several, on mounts, the served
// directory, and commands.

package mount

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/several"
)

// severalSeed returns a fixed seed, unless the run is full-length or has NFSRDMA_SEED: random
// schedules may find more bugs, of names or of the model.
func severalSeed(t *testing.T) string {
	t.Helper()
	if os.Getenv("NFSRDMA_SEED") == "" && os.Getenv("NFSRDMA_FULL") == "" {
		return "1"
	}
	return seed(t)
}

// severalOn runs random schedules until one fails; a full-length run continues after failures.
func severalOn(t *testing.T, w *several.World, count int) {
	t.Helper()
	first, err := strconv.ParseUint(severalSeed(t), 10, 64)
	if err != nil {
		t.Fatalf("strconv.ParseUint: %v", err)
	}
	taken, err := w.Check(first, count, func(failure error) bool {
		t.Errorf("%v\nNFSRDMA_SEED repeats it", failure)
		return full
	})
	if err != nil {
		t.Errorf("Check: %v", err)
	}
	t.Logf("%d steps", taken)
}

// severalMatrix runs half of the matrix, each cell for one pair of a changer and a looker. A full
// run has the whole matrix for all pairs.
func severalMatrix(t *testing.T, w *several.World, pairs ...[2]int) {
	t.Helper()
	first, err := strconv.ParseUint(severalSeed(t), 10, 64)
	if err != nil {
		t.Fatalf("strconv.ParseUint: %v", err)
	}
	every := 2
	switch {
	case full:
		every = several.AllPairs
	case thin:
		every = 4
	}
	cells, err := w.CheckMatrix(pairs, first, every, func(err error) { t.Error(err) })
	if err != nil {
		t.Errorf("CheckMatrix: %v", err)
	}
	t.Logf("%d cells", cells)
}

// A severalWorld is a world with processes that end with the test.
type severalWorld struct {
	*several.World
	t *testing.T
}

func newSeveral(t *testing.T) severalWorld {
	t.Helper()
	w := several.NewWorld(filepath.Base(tempDir(t, "several")))
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("w.Close: %v", err)
		}
	})
	return severalWorld{w, t}
}

// process adds a process in a directory.
func (w severalWorld) process(k several.Kind, dir string) {
	w.t.Helper()
	if err := w.Process(k, dir); err != nil {
		w.t.Fatalf("Process: %v", err)
	}
}

// tick gives changes distinct times, by a file's times.
func (w severalWorld) tick(file string) {
	w.t.Helper()
	var err error
	if w.Tick, err = several.TickOf(file); err != nil {
		w.t.Fatalf("TickOf: %v", err)
	}
}

// A severalBed is where schedules run.
type severalBed struct {
	name string
	// for the two mounts; the third mount, with noac, uses the first of them, and the commands use
	// TCP
	protos   [2]string
	export   string
	provider string
	// the server is killed at times, and started again; schedules then have no locks, which would
	// wait for the grace period
	restarts bool
}

var severalBeds = []severalBed{
	{"directory", [2]string{"rdma", "tcp"}, "/export", "iwarp", false},
	{"memory", [2]string{"rdma", "tcp"}, "/memory", "iwarp", false},
	{"roce", [2]string{"rdma", "tcp"}, "/export", "roce", false},
	{"restarts", [2]string{"tcp", "rdma"}, "/export", "iwarp", true},
}

// world starts a server with two mounts, one with noac, the commands, and a process in the served
// directory if there is one.
func (b severalBed) world(t *testing.T, lookups string) *several.World {
	t.Helper()
	host := "127.0.0.1"
	if b.provider == "roce" {
		host = machine.Addr(t).String()
	}
	s := startServer(t, "--rdma", b.provider, "--addr", host)
	w := newSeveral(t)
	mount := func(k several.Kind, proto, more string) {
		if proto == "rdma" {
			more += ",rdma=" + b.provider
		}
		k.Unasked, k.NoLocks = true, b.restarts
		w.process(k, mountAs(t, nil, host, s.options(proto), b.export, more))
	}
	// The first actor makes the schedules' directories, which an actor that keeps absent names
	// would not find.
	mount(several.Kind{Name: "a mount over " + b.protos[0] + " with lookupcache=" + lookups, Absent: lookups == "all"}, b.protos[0], "lookupcache="+lookups)
	mount(several.Kind{Name: "a mount over " + b.protos[1]}, b.protos[1], "lookupcache=pos")
	if b.export == "/export" {
		w.tick(filepath.Join(s.dir, "tick"))
		w.process(several.Kind{Name: "a process on the server", Local: true, NoLocks: b.restarts}, s.dir)
	}
	mount(several.Kind{Name: "a mount over " + b.protos[0] + " with noac", NoCache: true}, b.protos[0], "noac")
	if b.restarts {
		w.Restart = func() error {
			s.end(os.Kill)
			return s.start()
		}
		return w.World
	}
	url := "nfs://" + net.JoinHostPort(host, strconv.Itoa(s.tcp)) + b.export
	w.Add(several.Kind{Name: "the commands", Command: true},
		&several.Commands{Program: filepath.Join(rig.bin, "nfsrdma"), URL: url, File: filepath.Join(tempDir(t, "local"), "file")})
	return w.World
}

// TestSeveral: two mounts, a process on the server and commands see each other's changes as NFS
// promises, in every order of their steps. A full run has 1,000,000 steps.
func TestSeveral(t *testing.T) {
	needMounts(t)
	for _, b := range severalBeds {
		t.Run(b.name, func(t *testing.T) { severalOn(t, b.world(t, "all"), scaled(3000, 250_000)) })
	}
}

// TestSeveralMatrix: each way to change a file shows in each way to see it.
func TestSeveralMatrix(t *testing.T) {
	needMounts(t)
	severalMatrix(t, severalBeds[0].world(t, "pos"), [2]int{1, 0}, [2]int{2, 0}, [2]int{1, 3}, [2]int{2, 3}, [2]int{3, 1})
}
