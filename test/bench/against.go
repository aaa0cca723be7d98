// This tree compared with another tree: the commands of both, the rounds, and the rows.

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// otherEnv names the environment variable with the directory of the other commands. The measuring
// process gets it.
const otherEnv = "NFSRDMA_BENCH_OTHER"

// otherCommands returns the directory with the commands to compare with: built from a revision, or
// an existing directory. remove deletes the built files.
func otherCommands(ctx context.Context, against string) (dir string, remove func(), err error) {
	if _, err := os.Stat(filepath.Join(against, "nfsrdmad")); err == nil {
		dir, err = filepath.Abs(against)
		return dir, func() {}, err
	}
	commit, err := output(exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", against+"^{commit}"))
	if err != nil {
		return "", nil, fmt.Errorf("-against %s is no revision, and no directory with nfsrdmad: %w", against, err)
	}
	if dir, err = os.MkdirTemp("", "nfsrdma-bench-other-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	script := `mkdir tree && git -C "$TOP" archive "$COMMIT" | tar -x -C tree && cd tree && go build -buildvcs=false -o .. ./cmd/nfsrdma ./cmd/nfsrdmad && cd .. && rm -r tree`
	top, err := output(exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel"))
	if err == nil {
		build := exec.CommandContext(ctx, "sh", "-c", script)
		build.Dir = dir
		build.Env = append(os.Environ(), "TOP="+strings.TrimSpace(string(top)), "COMMIT="+strings.TrimSpace(string(commit)), "GOWORK=off")
		_, err = output(build)
	}
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("-against %s: %w", against, err)
	}
	return dir, remove, nil
}

// A side is one of the two compared trees: its server, also with the client commands, and its
// samples.
type side struct {
	name    string
	server  *server
	samples samples
}

// A contest is one run of the bench per side, and its figures.
type contest struct {
	group  string
	name   string // suffix of its rows' names
	job    job
	beside bool // with a concurrent stream of READs from another client
}

// onlyNamed is the group that is measured only if -rows names it.
const onlyNamed = "mount"

// Sizes of contests.
const (
	smallFile = 16 << 20 // for small calls
	largeDir  = 100_000  // names in the listed directory
)

// contests are in table order.
var contests = slices.Concat(
	smallContests("small", rdma), smallContests("smalltcp", tcp),
	[]contest{
		{"data", ", RDMA, CRC on", job{target: rdma, tests: "read,write", depth: 8}, false},
		{"data", ", RDMA, CRC off", job{target: rdmaOff, tests: "read,write", depth: 8}, false},
		{"data", ", TCP", job{target: tcp, tests: "read,write", depth: 8}, false},
		{"beside", ", depth 8, RDMA, beside a READ stream", job{target: rdma, tests: "getattr", depth: 8, size: smallFile}, true},
		{"beside", ", depth 8, TCP, beside a READ stream", job{target: tcp, tests: "getattr", depth: 8, size: smallFile}, true},
		{"list", ", 100,000 names, RDMA", job{target: rdma, tests: "readdirplus", dir: "large", depth: 1, size: smallFile}, false},
		{onlyNamed, "", job{target: rdma, tests: strings.Join(mountTests, ",")}, false},
	})

// smallContests returns the contests of small calls over one transport.
func smallContests(group string, over target) []contest {
	transport := ", " + strings.ToUpper(string(over))
	const each = "getattr,lookup,randread,randwrite"
	return []contest{
		{group, ", depth 1" + transport, job{target: over, tests: "null," + each, depth: 1, size: smallFile}, false},
		{group, ", depth 8" + transport, job{target: over, tests: each, depth: 8, size: smallFile}, false},
		{group, ", 4 connections x 8" + transport, job{target: over, tests: each, depth: 4 * 8, conns: 4, size: smallFile}, false},
	}
}

// contestGroups are the contests by group, for -rows.
var contestGroups = func() (of []group) {
	for _, c := range contests {
		if len(of) == 0 || of[len(of)-1].name != c.group {
			of = append(of, group{name: c.group})
		}
	}
	return of
}()

// contestTitles are the tests' titles.
var contestTitles = map[string]string{
	"null": "NULL", "getattr": "GETATTR", "lookup": "LOOKUP", "randread": "READ 4 KiB", "randwrite": "WRITE 4 KiB",
	"read": "READ 1 MiB", "write": "WRITE 1 MiB + COMMIT", "readdirplus": "READDIRPLUS",
}

// rows returns the rows of a contest, without bars.
func (c contest) rows() (rows []row) {
	for test := range strings.SplitSeq(c.job.tests, ",") {
		r := row{name: contestTitles[test] + c.name, unit: calls, value: c.key() + "/" + test + "/" + string(c.job.target)}
		switch {
		case c.group == onlyNamed:
			r.name, r.unit = test, "s"
		case c.beside:
			p99 := r
			p99.name, p99.unit, p99.value = "p99 of "+r.name, "µs", r.value+"/p99"
			r.name, r.unit, r.value = "p50 of "+r.name, "µs", r.value+"/p50"
			rows = append(rows, r, p99)
			continue
		case test == "read" || test == "write":
			r.unit = mib
		case test == "readdirplus":
			r.unit = "entries/s"
		}
		rows = append(rows, r)
	}
	return rows
}

// key returns the prefix of a contest's sample keys.
func (c contest) key() string {
	return fmt.Sprintf("%s/%d/%d", c.group, max(c.job.conns, 1), c.job.depth)
}

// sampleSide measures a contest for one side.
func (b *bed) sampleSide(ctx context.Context, c contest, s *side) error {
	if c.group == onlyNamed {
		return b.sampleMount(ctx, c.key(), s)
	}
	c.job.server = s.server
	sample := func() error {
		r, err := b.bench(ctx, c.job)
		if err == nil {
			s.samples.addReport(c.key(), c.job.target, r)
		}
		return err
	}
	if !c.beside {
		return sample()
	}
	stream := reading(c.job.target, 3*b.config.duration)
	stream.server = s.server
	return b.whileRunning(ctx, stream, sample)
}

// compare measures contests on both sides, in random order. A contest that fails on one side is
// skipped in all later rounds; failed has the reasons.
func (b *bed) compare(ctx context.Context, chosen []contest, sides [2]*side) (failed map[string]string, err error) {
	failed = map[string]string{}
	for round := range b.config.rounds {
		fmt.Fprintf(os.Stderr, "bench: round %d of %d, place %s\n", round+1, b.config.rounds, b.config.place)
		for _, c := range chosen {
			first := rand.IntN(2)
			for i := range sides {
				s := sides[(first+i)%2]
				if failed[c.group+c.name] != "" {
					continue
				}
				if err := b.sampleSide(ctx, c, s); ctx.Err() != nil {
					return failed, ctx.Err()
				} else if err != nil {
					failed[c.group+c.name] = s.name + ": " + lastLine(err)
				}
			}
		}
	}
	return failed, nil
}

// lastLine returns the last line of a failed command's output.
func lastLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := lines[len(lines)-1]
	if _, own, ok := strings.Cut(last, ": exit status "); ok {
		return "exit status " + own
	}
	return last
}

// measureAgainst starts the other server and measures both.
func (b *bed) measureAgainst(ctx context.Context, of []group) (found, error) {
	chosen := slices.DeleteFunc(slices.Clone(contests), func(c contest) bool { return !slices.Contains(namesOf(of), c.group) })
	other, err := b.serveFrom(b.config.other, "nfsrdmad", "state-other", b.served+"=/bench")
	if err != nil {
		return nil, fmt.Errorf("-against %s: %w", b.config.against, err)
	}
	if slices.ContainsFunc(chosen, func(c contest) bool { return c.job.dir == "large" }) {
		remove, err := b.makeNames("large", largeDir)
		if err != nil {
			return nil, err
		}
		defer remove()
	}
	if slices.ContainsFunc(chosen, func(c contest) bool { return c.group == onlyNamed }) {
		if err := b.layOutTree(ctx); err != nil {
			return nil, err
		}
	}
	sides := [2]*side{{"this", b.ours, samples{}}, {"other", other, samples{}}}
	failed, err := b.compare(ctx, chosen, sides)
	return newComparison(b.config, chosen, sides, failed), err
}

// knownFlags drops the flags that another revision's server lacks.
func knownFlags(program string, flags []string) (known []string, err error) {
	help, err := exec.Command(program, "serve", "--help").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s serve --help: %w\n%s", program, err, help)
	}
	for _, f := range flags {
		if name, _, _ := strings.Cut(f, "="); strings.Contains(string(help), name+" ") {
			known = append(known, f)
		} else {
			fmt.Fprintf(os.Stderr, "bench: the other server has no %s\n", name)
		}
	}
	return known, nil
}
