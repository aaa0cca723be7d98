// Failed tests found in the output of go test, and whether running them again may decide.

package main

import (
	"regexp"
	"slices"
	"strings"
)

// A failure is one package's part of the output of go test, with its failed tests.
type failure struct {
	pkg string
	// of the top level, in the order of the output; empty if the package itself failed
	tests []string
	lines []string
}

// failures takes the failed packages out of the output of go test, with or without -v.
// go test prints the lines of one package together, and the verdict on the package last.
func failures(output string) (failed []failure) {
	var f failure
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		f.lines = append(f.lines, line)
		if name, found := strings.CutPrefix(line, "--- FAIL: "); found {
			name, _, _ = strings.Cut(name, " ")
			f.tests = append(f.tests, name)
			continue
		}
		verdict, rest, tabbed := strings.Cut(line, "\t")
		switch verdict = strings.TrimSpace(verdict); {
		case tabbed && verdict == "FAIL":
			f.pkg, _, _ = strings.Cut(rest, "\t")
			f.pkg, _, _ = strings.Cut(f.pkg, " ") // "[build failed]" follows after a space
			failed = append(failed, f)
			f = failure{}
		case tabbed && (verdict == "ok" || verdict == "?"):
			f = failure{}
		}
	}
	return failed
}

// Kinds of failures that are never run again, identified by the output. A Go program starts the
// line of its panic or fatal error at the margin; a guest's kernel does not.
var (
	crashed = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE)|race detected during execution`)
	harmed  = regexp.MustCompile(`(?i)\b(wrong|other|older|different|stale) (bytes?|content|data)\b` +
		`|\b(bytes?|content|data|records?|writes?|lines?|tree)\b.*\b(lost|differs?|different|wrong|missing|or others)\b` +
		`|\b(corrupt\w*|NULs|acknowledged)\b`)
)

// reason returns why a failure counts at once, or "" if running its tests again decides. Tests that
// passed may report expected harm, so only the failed ones' output counts.
func (f failure) reason() string {
	if crashed.MatchString(strings.Join(f.lines, "\n")) {
		return "a race or a crash"
	}
	if len(f.tests) == 0 {
		return "the package did not build or ended without a failed test"
	}
	for _, test := range slices.Concat(f.tests, []string{""}) {
		if harmed.MatchString(strings.Join(f.output(test), "\n")) {
			return "wrong or lost data"
		}
	}
	return ""
}

// output returns a failed test's output, with that of its subtests which did not pass. The test ""
// has the lines that precede all tests, such as those of a program.
func (f failure) output(test string) (lines []string) {
	passed := map[string]bool{}
	for _, line := range f.lines {
		if m := verdict.FindStringSubmatch(line); m != nil && m[1] != "FAIL" {
			passed[m[2]] = true
		}
	}
	current := ""
	for _, line := range f.lines {
		if m := header.FindStringSubmatch(line); m != nil {
			current = m[1]
			continue
		}
		if m := verdict.FindStringSubmatch(line); m != nil {
			current = m[2]
			if current == test {
				continue
			}
		}
		top, _, _ := strings.Cut(current, "/")
		if top == test && !passed[current] && !packageVerdict.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Lines of go test that name the test whose output follows, and the package's verdict.
var (
	header         = regexp.MustCompile(`^=== [A-Z]+ +(\S+)`)
	verdict        = regexp.MustCompile(`^ *--- (FAIL|PASS|SKIP): (\S+) `)
	packageVerdict = regexp.MustCompile(`^(FAIL|PASS|ok)\b`)
)
