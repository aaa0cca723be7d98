// Failed tests found in the output of go test, and whether running them again may decide.

package main

import (
	"regexp"
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

// reason returns why a failure counts at once, or "" if running its tests again decides.
func (f failure) reason() string {
	text := strings.Join(f.lines, "\n")
	switch {
	case crashed.MatchString(text):
		return "a race or a crash"
	case len(f.tests) == 0:
		return "the package did not build or ended without a failed test"
	case harmed.MatchString(text):
		return "wrong or lost data"
	}
	return ""
}

// first returns the first lines of a failed test's output, at most n.
func (f failure) first(test string, n int) (lines []string) {
	verbose := false
	for i, line := range f.lines {
		if line == "=== RUN   "+test {
			verbose, lines = true, nil
		}
		if strings.HasPrefix(line, "=== ") {
			continue
		}
		if strings.HasPrefix(line, "--- FAIL: "+test+" ") {
			if !verbose {
				lines = f.lines[i+1:]
			}
			break
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		if !verbose && !strings.HasPrefix(line, " ") {
			lines = lines[:i]
			break
		}
	}
	return lines[:min(n, len(lines))]
}
