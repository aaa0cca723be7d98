// Command rerun is go test for a machine under foreign load: more runs decide about failed tests,
// unless there was a race, a crash or lost data.
//
//	rerun [FLAGS OF GO TEST] -- PACKAGE…
//
// Each failed test is run alone up to five more times. If it passes each time, the status is 0. A
// line "FLAKY name" with the first failure then goes to standard output. If NFSRDMA_FLAKY names a
// file, the line also goes there. The next change must fix such a test before anything else. A
// race, a panic, lost data or a wrong byte is never run again, and neither is a package that does
// not build.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const (
	times    = 5  // runs of a failed test
	most     = 8  // failed tests to run again; a larger number is no accident
	excerpts = 40 // shown lines of the first failure
)

func main() {
	i := slices.Index(os.Args, "--")
	if i < 0 || i == len(os.Args)-1 {
		fmt.Fprintln(os.Stderr, "usage: rerun [FLAGS OF GO TEST] -- PACKAGE…")
		os.Exit(2)
	}
	r := runner{run: goTest, out: os.Stdout}
	ok := r.all(os.Args[1:i], os.Args[i+1:])
	if file := os.Getenv("NFSRDMA_FLAKY"); file != "" && len(r.flaky) > 0 {
		if err := note(file, r.flaky); err != nil {
			fmt.Fprintln(os.Stderr, err)
			ok = false
		}
	}
	if !ok {
		os.Exit(1)
	}
}

// note adds lines to a file.
func note(file string, lines []string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, strings.Join(lines, "\n")+"\n")
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// goTest runs go test, copies its output to out, and returns the output and whether it passed.
func goTest(out io.Writer, args []string) (string, bool) {
	var all bytes.Buffer
	cmd := exec.Command("go", append([]string{"test"}, args...)...)
	cmd.Stdout = io.MultiWriter(out, &all)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	return all.String(), err == nil
}

// A runner runs tests, and repeats failed ones.
type runner struct {
	run   func(out io.Writer, args []string) (string, bool)
	out   io.Writer
	flaky []string // lines about tests that failed and then passed each time
}

// all runs the tests of the packages and reports whether all passed, in this run or when run again
// alone.
func (r *runner) all(flags, packages []string) bool {
	output, passed := r.run(r.out, slices.Concat(flags, packages))
	if passed {
		return true
	}
	failed := failures(output)
	count := 0
	for _, f := range failed {
		if why := f.reason(); why != "" {
			fmt.Fprintf(r.out, "%s is not run again: %s\n", f.pkg, why)
			return false
		}
		count += len(f.tests)
	}
	if count == 0 || count > most {
		fmt.Fprintf(r.out, "nothing is run again: %d tests failed\n", count)
		return false
	}
	for _, f := range failed {
		for _, test := range f.tests {
			if !r.again(flags, f, test) {
				return false
			}
		}
	}
	return true
}

// again runs one failed test alone and reports whether it passed each time.
func (r *runner) again(flags []string, f failure, test string) bool {
	args := slices.Concat(flags, []string{"-count=1", "-run", "^" + test + "$", f.pkg})
	for i := range times {
		fmt.Fprintf(r.out, "run alone, %d of %d: %s of %s\n", i+1, times, test, f.pkg)
		if _, passed := r.run(r.out, args); !passed {
			return false
		}
	}
	said := f.output(test)
	lines := append([]string{"FLAKY " + test + " of " + f.pkg}, said[:min(excerpts, len(said))]...)
	fmt.Fprintln(r.out, strings.Join(lines, "\n"))
	r.flaky = append(r.flaky, lines...)
	return true
}
