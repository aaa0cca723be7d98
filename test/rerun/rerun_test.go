// Failures are found in go test's output, and only harmless ones are run again.

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

const (
	plain = `ok  	example.org/m/a	0.1s
--- FAIL: TestOne (0.00s)
    one_test.go:7: got 3, want 4
    --- FAIL: TestOne/sub (0.00s)
        one_test.go:9: too late
--- FAIL: TestTwo (0.00s)
    two_test.go:7: got 5, want 6
FAIL
FAIL	example.org/m/b	0.2s
?   	example.org/m/c	[no test files]
FAIL
`
	verbose = `=== RUN   TestOne
    one_test.go:7: got 3, want 4
--- FAIL: TestOne (0.00s)
=== RUN   TestTwo
--- PASS: TestTwo (0.00s)
FAIL
FAIL	example.org/m/b	0.2s
FAIL
`
	// parallel is the output of go test -v with subtests at the same time, of which one failed.
	parallel = `=== RUN   TestOne
=== RUN   TestOne/a
=== PAUSE TestOne/a
=== RUN   TestOne/b
=== PAUSE TestOne/b
=== CONT  TestOne/a
=== CONT  TestOne/b
    one_test.go:7: 20 records, 3 lost, as they should be
=== NAME  TestOne/a
    one_test.go:9: too late
=== NAME  TestOne/b
    one_test.go:8: done
--- FAIL: TestOne (0.00s)
    --- PASS: TestOne/b (0.00s)
    --- FAIL: TestOne/a (0.00s)
=== RUN   TestTwo
    two_test.go:7: 4 Writes; 0 times a packet was missing
--- PASS: TestTwo (0.00s)
FAIL
FAIL	example.org/m/b	0.2s
FAIL
`
	unbuilt = `# example.org/m/b [example.org/m/b.test]
b/b_test.go:3:1: syntax error
FAIL	example.org/m/b [build failed]
`
)

// with returns the output of a package with one failed test and its line.
func with(line string) string {
	return "--- FAIL: TestOne (0.00s)\n" + line + "\nFAIL\nFAIL\texample.org/m/b\t0.2s\nFAIL\n"
}

func TestFailuresAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		output string
		want   string
	}{
		"plain":    {plain, "example.org/m/b [TestOne TestTwo]"},
		"verbose":  {verbose, "example.org/m/b [TestOne]"},
		"parallel": {parallel, "example.org/m/b [TestOne]"},
		"unbuilt":  {unbuilt, "example.org/m/b []"},
		"passed":   {"ok  \texample.org/m/a\t0.1s\n", ""},
		"cut":      {"--- FAIL: TestOne (0.00s)\n", ""},
	} {
		var got []string
		for _, f := range failures(test.output) {
			got = append(got, fmt.Sprint(f.pkg, " ", f.tests))
		}
		if s := strings.Join(got, "; "); s != test.want {
			t.Errorf("%s: got %q, want %q", name, s, test.want)
		}
	}
}

func TestOutputOfAFailure(t *testing.T) {
	for name, test := range map[string]struct{ output, test, want string }{
		"plain, with a part": {plain, "TestOne", "    one_test.go:7: got 3, want 4|    --- FAIL: TestOne/sub (0.00s)|        one_test.go:9: too late"},
		"plain, the second":  {plain, "TestTwo", "    two_test.go:7: got 5, want 6"},
		"verbose":            {verbose, "TestOne", "    one_test.go:7: got 3, want 4"},
		"parallel subtests":  {parallel, "TestOne", "    one_test.go:9: too late|    --- FAIL: TestOne/a (0.00s)"},
	} {
		if got := strings.Join(failures(test.output)[0].output(test.test), "|"); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestHarmIsNeverRunAgain(t *testing.T) {
	for line, want := range map[string]bool{
		"    x_test.go:7: got 3, want 4":                             true,
		"    x_test.go:7: context deadline exceeded":                 true,
		"    x_test.go:7: guest: [ 12.0] PANIC: double fault":        true,
		"    x_test.go:7: the connection was lost":                   true,
		"WARNING: DATA RACE":                                         false,
		"    testing.go:1: race detected during execution of test":   false,
		"panic: runtime error: index out of range":                   false,
		"fatal error: concurrent map writes":                         false,
		"    x_test.go:7: 4 of 10 lines are lost":                    false,
		"    x_test.go:7: 12 bytes at 4096: other bytes":             false,
		"    x_test.go:7: round 7: the Read returned older bytes":    false,
		"    x_test.go:7: 20 records, 3 lost":                        false,
		"    x_test.go:7: read 5 of 9 bytes, <nil>, or others":       false,
		"    x_test.go:7: the tree that came back differs":           false,
		"    x_test.go:7: offset 12: wrong byte, got 0x00 want 0x61": false,
	} {
		if got := failures(with(line))[0].reason() == ""; got != want {
			t.Errorf("%q: run again: got %t, want %t", line, got, want)
		}
	}
	if why := failures(parallel)[0].reason(); why != "" {
		t.Errorf("messages of tests that passed count as %s", why)
	}
	if failures(unbuilt)[0].reason() == "" {
		t.Error("a package that does not build is run again")
	}
}

// A script answers the runs of go test in turn.
type script struct {
	answers []string // "" passes
	runs    [][]string
}

func (s *script) run(_ io.Writer, args []string) (string, bool) {
	s.runs = append(s.runs, args)
	if len(s.answers) == 0 {
		return "", true
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer, answer == ""
}

func TestRunAlone(t *testing.T) {
	again := with("    x_test.go:7: too late")
	for name, test := range map[string]struct {
		answers []string
		passed  bool
		runs    int
		flaky   int // tests
	}{
		"passes":           {nil, true, 1, 0},
		"flaky":            {[]string{again}, true, 1 + times, 1},
		"two flaky":        {[]string{plain}, true, 1 + 2*times, 2},
		"fails again":      {[]string{again, again}, false, 2, 0},
		"fails at last":    {[]string{again, "", "", "", "", again}, false, 6, 0},
		"raced":            {[]string{with("WARNING: DATA RACE")}, false, 1, 0},
		"one lost, others": {[]string{again + with("    x_test.go:7: 3 lines are lost")}, false, 1, 0},
		"unbuilt":          {[]string{unbuilt}, false, 1, 0},
		"too many":         {[]string{strings.Repeat(again, most+1)}, false, 1, 0},
		"no verdict":       {[]string{"go: no such tool\n"}, false, 1, 0},
	} {
		s := &script{answers: test.answers}
		r := runner{run: s.run, out: io.Discard}
		if got := r.all([]string{"-race"}, []string{"./..."}); got != test.passed {
			t.Errorf("%s: passed: got %t, want %t", name, got, test.passed)
		}
		if got := len(s.runs); got != test.runs {
			t.Errorf("%s: got %d runs, want %d", name, got, test.runs)
		}
		got := 0
		for _, line := range r.flaky {
			if strings.HasPrefix(line, "FLAKY Test") {
				got++
			}
		}
		if got != test.flaky {
			t.Errorf("%s: got %d flaky tests, want %d", name, got, test.flaky)
		}
		if len(s.runs) > 1 {
			want := []string{"-race", "-count=1", "-run", "^TestOne$", "example.org/m/b"}
			if !slices.Equal(s.runs[1], want) {
				t.Errorf("%s: got arguments %q, want %q", name, s.runs[1], want)
			}
		}
	}
}
