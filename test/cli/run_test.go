// One case: make both sides, run its command lines on each, and compare the results.

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// The ordinary user, and his second group.
const (
	userID      = 4242
	secondGroup = 4243
)

// stepLimit bounds the time for one command line on a busy machine. The limits bound its CPU time
// and memory, because a tree copied into itself has no end.
const (
	stepLimit = 4 * time.Minute
	limits    = "ulimit -t 30; ulimit -v 6000000\n"
)

// commands are the nfsrdma commands in a script's command lines.
var commands = []string{"cp", "mv", "rm", "ln", "mkdir", "stat", "df", "ls", "cat"}

// A caller is the user that runs the commands: nil is the suite's own.
type caller = *syscall.Credential

func TestCommands(t *testing.T) {
	cases, err := readScripts()
	if err != nil {
		t.Fatalf("readScripts: %v", err)
	}
	ordinary := caller(nil)
	if os.Geteuid() == 0 {
		ordinary = &syscall.Credential{Uid: userID, Gid: userID, Groups: []uint32{userID, secondGroup}}
	}
	for _, who := range []string{"root", "user"} {
		t.Run(who, func(t *testing.T) {
			if who == "root" && os.Geteuid() != 0 {
				machine.Skip(t, "the commands can be run as root by root alone")
			}
			as := caller(nil)
			if who == "user" {
				as = ordinary
			}
			for _, c := range cases {
				if c.only != "" && c.only != who {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.test(t, who, as)
				})
			}
		})
	}
}

func (c *testCase) test(t *testing.T, who string, as caller) {
	if len(c.rootSetup) > 0 && os.Geteuid() != 0 {
		machine.Skip(t, "its setup wants root")
	}
	dir := filepath.Join(rig.base, "served", strings.ReplaceAll(t.Name(), "/", "-"))
	start := time.Now()
	want, got := newSide(t, c, as, filepath.Join(dir, "gnu")), newSide(t, c, as, filepath.Join(dir, "our"))
	got.url = rig.url + strings.TrimPrefix(got.tree, filepath.Join(rig.base, "served"))
	var diffs []string
	for i, s := range c.steps {
		want.run(t, c, s)
		got.run(t, c, s)
		for _, d := range c.diffOutcomes(&want.outcome, &got.outcome) {
			if len(c.steps) > 1 {
				d = fmt.Sprintf("run %d: %s", i+1, d)
			}
			diffs = append(diffs, d)
		}
	}
	wantTree, err := readTree(want.dir)
	if err != nil {
		t.Fatalf("readTree: %v", err)
	}
	gotTree, err := readTree(got.dir)
	if err != nil {
		t.Fatalf("readTree: %v", err)
	}
	diffs = append(diffs, diffTrees(wantTree, gotTree, start)...)
	diffs = append(diffs, diffChecks(c.checks, wantTree, gotTree, start)...)
	c.conclude(t, diffs, c.differs[who])
	if !t.Failed() {
		removeAll(dir)
	}
}

// conclude removes the expected differences from diffs and reports the rest. An expected difference
// that does not occur is an error, too.
func (c *testCase) conclude(t *testing.T, diffs []string, expected []difference) {
	var wrong []string
	for _, d := range expected {
		re := wildcard(d.pattern)
		n := len(diffs)
		diffs = slices.DeleteFunc(diffs, re.MatchString)
		if len(diffs) == n {
			wrong = append(wrong, fmt.Sprintf("no such difference any more: differs %s %s", d.reason, d.pattern))
		}
	}
	wrong = append(wrong, diffs...)
	if len(wrong) > 0 {
		t.Errorf("%s:\n%s", c.file, strings.Join(wrong, "\n"))
	}
}

// A side is the place where one of the two programs runs: a tree, and a local directory in which
// commands start.
type side struct {
	dir, tree, scratch string
	url                string // replaces @, for nfsrdma
	as                 caller
	outcome            outcome
}

// An outcome is the result of one command line, with @ and % in place of the side's paths.
type outcome struct {
	status         int
	stdout, stderr string
}

func newSide(t *testing.T, c *testCase, as caller, dir string) *side {
	t.Helper()
	start := time.Now()
	s := &side{dir: dir, tree: filepath.Join(dir, "tree"), scratch: filepath.Join(dir, "scratch"), as: as}
	for _, d := range []string{filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir), dir, s.tree, s.scratch} {
		must.Succeed(t, os.MkdirAll(d, 0o755))
		_ = os.Chmod(d, 0o755)
	}
	if as != nil {
		for _, d := range []string{s.tree, s.scratch} {
			must.Succeed(t, os.Chown(d, int(as.Uid), int(as.Gid)))
		}
	}
	s.prepare(t, c, c.rootSetup, nil)
	s.prepare(t, c, c.setup, as)
	stampTree(t, dir, start)
	return s
}

// prepare runs lines of setup, in the tree.
func (s *side) prepare(t *testing.T, c *testCase, lines []string, as caller) {
	t.Helper()
	if len(lines) == 0 {
		return
	}
	script := expand(strings.Join(lines, "\n"), s.tree, s.scratch)
	o := shell(t, "set -e; umask "+c.umask+"\ncd "+s.tree+"\n"+script, "", as)
	if o.status != 0 {
		t.Fatalf("%s: setup ends with %d: %s", c.file, o.status, o.stderr)
	}
}

// run runs a command line with coreutils, or with nfsrdma if the side has a URL.
func (s *side) run(t *testing.T, c *testCase, st step) {
	t.Helper()
	prelude, tree := "n() { printf %s \"$1\"; }\n", s.tree
	if s.url != "" {
		tree = s.url
		prelude = "n() { printf %s \"$1\" | od -An -v -tx1 | tr -d ' \\n' | sed 's/../%&/g'; }\n"
		for _, name := range commands {
			prelude += fmt.Sprintf("%s() { %s/nfsrdma %s \"$@\"; }\n", name, rig.bin, name)
		}
	}
	o := shell(t, prelude+"umask "+c.umask+"\ncd "+s.scratch+"\n"+expand(st.line, tree, s.scratch), st.stdin, s.as)
	back := strings.NewReplacer(tree, "@", s.scratch, "%")
	o.stdout, o.stderr = back.Replace(o.stdout), back.Replace(o.stderr)
	s.outcome = o
}

// shell runs a script of sh.
func shell(t *testing.T, script, stdin string, as caller) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", limits+script)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + rig.base, "LC_ALL=C", "TZ=UTC"}
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Minute
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", script, err)
	}
	if ctx.Err() != nil {
		t.Errorf("does not end: %s\n%s", script, stderr.String())
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
