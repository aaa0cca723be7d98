// Commands whose output has a form of its own: what it says is taken out and compared.

package cli

import (
	"fmt"
	"regexp"
	"strings"
)

// statFacts are what stat says of a file, by the expressions that find it in coreutils' form and in ours.
var statFacts = []struct {
	name       string
	want, have *regexp.Regexp
}{
	{"size", regexp.MustCompile(`(?m)^ +Size: (\d+)`), regexp.MustCompile(`(?m)^ +Size: (\d+)`)},
	{"mode", regexp.MustCompile(`(?m)^Access: \((\d+)/`), regexp.MustCompile(`(?m)^ +Mode: (\d+)`)},
	{"owner", regexp.MustCompile(`Uid: \( *(\d+)/`), regexp.MustCompile(`(?m)^ *Owner: (\d+)`)},
	{"group", regexp.MustCompile(`Gid: \( *(\d+)/`), regexp.MustCompile(`(?m)^ *Owner: \d+:(\d+)`)},
	{"links", regexp.MustCompile(`Links: (\d+)`), regexp.MustCompile(`(?m)^ *Links: (\d+)`)},
	{"mtime", regexp.MustCompile(`(?m)^Modify: (.*)`), regexp.MustCompile(`(?m)^ *Modify: (.*)`)},
	{"type", regexp.MustCompile(`(?m)IO Block: \d+ +(.*)`), regexp.MustCompile(`(?m)^ *Type: (.*)`)},
	{"name", regexp.MustCompile(`(?m)^ +File: (.*)`), regexp.MustCompile(`(?m)^ +File: (.*)`)},
}

func diffStat(want, got string) (diffs []string) {
	for _, fact := range statFacts {
		a, b := facts(fact.want, want), facts(fact.have, got)
		if a != b {
			diffs = append(diffs, fmt.Sprintf("stat: %s %q, nfsrdma %q", fact.name, a, b))
		}
	}
	return diffs
}

// facts joins what an expression finds, one for each file.
func facts(re *regexp.Regexp, s string) string {
	var found []string
	for _, m := range re.FindAllStringSubmatch(s, -1) {
		found = append(found, m[1])
	}
	return strings.Join(found, "|")
}

// diffDF compares the number of lines: the figures change while others write.
func diffDF(want, got string) []string {
	if a, b := strings.Count(want, "\n"), strings.Count(got, "\n"); a != b {
		return []string{fmt.Sprintf("df: %d lines, nfsrdma %d", a, b)}
	}
	return nil
}
