// Command bench measures this server and its client and compares them with nfs-ganesha. It prints a
// table of bars: the required value of each figure, its value, and whether the bar is met.
//
//	go run ./test/bench -out /tmp/figures          # everything, at most 15 minutes
//	go run ./test/bench -quick -out /tmp/figures   # fewer rows and rounds, at most 5 minutes
//	go run ./test/bench -quick -rows small,tail
//	go run ./test/bench -against HEAD~20 -place shared,apart,wire   # this tree against another
//
// It builds both commands and serves a new directory in memory with nfsrdmad and, if it is
// installed (Debian: nfs-ganesha nfs-ganesha-vfs rpcbind), with nfs-ganesha. nfsrdma bench measures
// both, so all have the same client program. Run by root, everything happens in new namespaces
// (network, mounts, processes): ports and rpcbind of the machine are not touched, and no process
// outlives the run. Other users get only the rows that work without root.
//
// Rounds are interleaved: each measures every target once. A share is the median of the rounds'
// shares, so a change in the machine's speed affects both sides of a share. No bar is a test: the
// command fails only if a measurement failed.
//
// With -against, contests replace bars: each round measures both ends of this tree and both ends of
// the other in random order. A row has the ratio of the two, with its quartiles. -place puts both
// ends on the same CPUs, on one CPU each, or in two networks with a delay between them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// config has the values of the flags.
type config struct {
	dir      string // parent of the served directory; empty: in memory
	disk     string // parent of the disk group's directory
	out      string // for JSON and SVG; empty: no files
	cpus     string
	place    string // comma-separated names of places; in a bed: one place
	against  string // a revision or a directory with both commands; empty: measure bars
	other    string // the directory with the other commands
	rows     string
	quick    bool
	ganesha  bool
	files    int           // in juicefs-memory's tree
	rounds   int           // 0: by quick
	duration time.Duration // per figure; 0: by quick
}

func (c *config) flags(f *flag.FlagSet) {
	f.StringVar(&c.dir, "dir", "", "where the served directory is made (default: for root a tmpfs that nobody else sees, otherwise /dev/shm)")
	f.StringVar(&c.disk, "disk", "/var/tmp", "where the file of the row with a cold cache is made: on ext4 or another file system of a disk")
	f.StringVar(&c.out, "out", "", "directory for table.txt, figures.json and the SVG graphs (default: none are written)")
	f.StringVar(&c.cpus, "cpus", "0,1", "CPUs that everything runs on")
	f.StringVar(&c.place, "place", placeShared, "where both ends run, between commas: shared (all of -cpus), apart (servers on the first of -cpus, clients on the second), wire (two networks, a path of MTU 1500 with 100µs each way)")
	f.StringVar(&c.against, "against", "", "measure this tree and another in turns: a revision, or a directory with its nfsrdma and nfsrdmad; -rows are "+strings.Join(namesOf(contestGroups), ",")+" (default all but "+onlyNamed+")")
	f.StringVar(&c.rows, "rows", "", "groups of rows to measure: "+strings.Join(groupNames(), ",")+" (default all, -quick: "+strings.Join(quickGroups, ",")+"); measured when they are named only: "+strings.Join(namesOf(extraGroups), ","))
	f.BoolVar(&c.quick, "quick", false, "fewer rows and rounds, short figures: at most 5 minutes")
	f.BoolVar(&c.ganesha, "ganesha", true, "measure nfs-ganesha, too, where it is installed")
	f.IntVar(&c.files, "files", 100000, "files of the tree that juicefs-memory looks at")
	f.IntVar(&c.rounds, "rounds", 0, "rounds of each figure (default 5, -quick: 3)")
	f.DurationVar(&c.duration, "duration", 0, "time of each figure (default 500ms, -quick: 200ms)")
}

// settle sets the defaults and returns the groups to measure in table order.
func (c *config) settle() ([]group, error) {
	rounds, duration := 5, 500*time.Millisecond
	all, names := slices.Concat(groups, extraGroups), groupNames()
	if c.quick {
		rounds, duration, names = 3, 200*time.Millisecond, quickGroups
	}
	if c.against != "" {
		all, names = contestGroups, slices.DeleteFunc(namesOf(contestGroups), func(n string) bool { return n == onlyNamed })
	}
	if c.rounds == 0 {
		c.rounds = rounds
	}
	if c.duration == 0 {
		c.duration = duration
	}
	if c.rows != "" {
		names = strings.Split(c.rows, ",")
	}
	if _, err := parsePlaces(c.place); err != nil {
		return nil, err
	}
	for _, n := range names {
		if known := namesOf(all); !slices.Contains(known, n) {
			return nil, fmt.Errorf("-rows %s: there are %s", n, strings.Join(known, ", "))
		}
	}
	if c.rounds < 1 || c.duration <= 0 {
		return nil, errors.New("-rounds and -duration have to be more than 0")
	}
	return slices.DeleteFunc(slices.Clone(all), func(g group) bool { return !slices.Contains(names, g.name) }), nil
}

// limit returns the time limit for a place. Unmeasured rows stay open in the table.
func (c *config) limit() time.Duration {
	switch {
	case c.against != "", strings.Contains(c.rows, "juicefs"):
		// time for as many rounds as requested; compiling and a large tree take long
		return 2 * time.Hour
	case c.quick:
		return 290 * time.Second
	}
	return 15 * time.Minute
}

func main() {
	if len(os.Args) > 1 && slices.Contains([]string{"_conns", "_cold", "_idle", "_cost", "_work", "_calls", "_forward", "_sockets"}, os.Args[1]) {
		exit(load(os.Args[1:], os.Stdin, os.Stdout))
	}
	var c config
	c.flags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		exit(fmt.Errorf("no arguments are wanted, got %q", flag.Args()))
	}
	if _, err := c.settle(); err != nil {
		exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv(insideEnv) == "" {
		exit(outside(ctx, c))
	}
	c.other = os.Getenv(otherEnv)
	if err := makeInside(); err != nil {
		exit(err)
	}
	exit(run(ctx, c))
}

// outside runs in the first process. It builds the commands to compare with, because only this
// process is sure to have the network, and starts the measuring process.
func outside(ctx context.Context, c config) error {
	if c.against == "" {
		return runInside(c.cpus)
	}
	dir, remove, err := otherCommands(ctx, c.against)
	if err != nil {
		return err
	}
	defer remove()
	return runInside(c.cpus, otherEnv+"="+dir)
}

// exit ends the program with err. It prints nothing if a child has already printed the error.
func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	if !errors.Is(err, errPrinted) {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	os.Exit(1)
}

// run measures at each place.
func run(ctx context.Context, c config) error {
	chosen, err := c.settle()
	if err != nil {
		return err
	}
	list, err := parsePlaces(c.place)
	if err != nil {
		return err
	}
	var failed []error
	for _, c.place = range list {
		at := c
		if len(list) > 1 && c.out != "" {
			at.out = filepath.Join(c.out, c.place)
		}
		if err := runAt(ctx, at, chosen); err != nil {
			failed = append(failed, fmt.Errorf("place %s: %w", c.place, err))
		}
	}
	return errors.Join(failed...)
}

// runAt measures at one place and writes the results, even if some measurements failed.
func runAt(ctx context.Context, c config, chosen []group) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	b, err := newBed(ctx, c)
	if err != nil {
		return err
	}
	defer b.close()
	var r found
	if c.against != "" {
		r, err = b.measureAgainst(ctx, chosen)
	} else {
		r, err = b.measureBars(ctx, chosen)
	}
	if r == nil {
		return err
	}
	if b.wire != nil {
		path, e := b.describeWire()
		r.at().Path, err = path, errors.Join(err, e)
	}
	fmt.Println(r.table())
	if c.out != "" {
		err = errors.Join(err, r.write(c.out))
	}
	return err
}

// measureBars measures the chosen groups, and returns their figures in a table with bars.
func (b *bed) measureBars(ctx context.Context, chosen []group) (found, error) {
	var failed []error
	for _, g := range chosen {
		if b.config.place != placeShared && slices.Contains(sharedOnly, g.name) {
			fmt.Fprintf(os.Stderr, "bench: %s is measured with -place %s only\n", g.name, placeShared)
			continue
		}
		start := time.Now()
		if err := g.measure(b, ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", g.name, err))
		}
		fmt.Fprintf(os.Stderr, "bench: %s measured in %.0f s\n", g.name, time.Since(start).Seconds())
	}
	r := newResult(b.config, chosen, b.samples)
	r.Graphs = b.graphs
	return r, errors.Join(failed...)
}
