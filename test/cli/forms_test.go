// Commands whose output has figures that cannot be the same: the rest is compared.

package cli

import (
	"fmt"
	"regexp"
	"strings"
)

// statMasks are the parts of stat's output that differ between file systems, or between files in
// one file system.
var statMasks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`IO Block: \d+ *`), "IO Block: N "},
	{regexp.MustCompile(`Device: \S+\s+Inode: \d+ *`), "Device: N Inode: N "},
	{regexp.MustCompile(`Device type: \S+`), "Device type: N"},
	{regexp.MustCompile(`(?m)^Change: .*`), "Change: now"},
	{regexp.MustCompile(`(?m)^( Birth|Handle): .*\n`), ""},
}

func diffStat(want, got string) []string {
	for _, m := range statMasks {
		want, got = m.what.ReplaceAllString(want, m.with), m.what.ReplaceAllString(got, m.with)
	}
	return diffLines(want, got, false)
}

// diffDF compares the header and the number of lines: the figures change while others write.
func diffDF(want, got string) (diffs []string) {
	header := func(s string) string {
		first, _, _ := strings.Cut(s, "\n")
		return strings.Join(strings.Fields(first), " ")
	}
	if a, b := header(want), header(got); a != b {
		diffs = append(diffs, fmt.Sprintf("df: header %q, nfsrdma %q", a, b))
	}
	if a, b := strings.Count(want, "\n"), strings.Count(got, "\n"); a != b {
		diffs = append(diffs, fmt.Sprintf("df: %d lines, nfsrdma %d", a, b))
	}
	return diffs
}
