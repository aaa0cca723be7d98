// Exit status, output and messages of the two sides compared.

package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

func (c *testCase) diffOutcomes(want, got *outcome) (diffs []string) {
	if want.status != got.status {
		diffs = append(diffs, fmt.Sprintf("status %d, nfsrdma %d", want.status, got.status))
	}
	switch c.form {
	case "stat":
		diffs = append(diffs, diffStat(want.stdout, got.stdout)...)
	case "df":
		diffs = append(diffs, diffDF(want.stdout, got.stdout)...)
	default:
		diffs = append(diffs, diffLines(want.stdout, got.stdout, c.unordered)...)
	}
	return append(diffs, diffMessages(want.stderr, got.stderr)...)
}

// diffLines compares standard outputs.
func diffLines(want, got string, unordered bool) (diffs []string) {
	if want == got {
		return nil
	}
	a, b := slices.Collect(strings.Lines(want)), slices.Collect(strings.Lines(got))
	for _, line := range a {
		if i := slices.Index(b, line); i >= 0 {
			b = slices.Delete(b, i, i+1)
			continue
		}
		diffs = append(diffs, fmt.Sprintf("stdout lacks %q", line))
	}
	for _, line := range b {
		diffs = append(diffs, fmt.Sprintf("stdout has %q", line))
	}
	if len(diffs) == 0 && !unordered {
		diffs = append(diffs, fmt.Sprintf("stdout has another order: %q, nfsrdma %q", want, got))
	}
	return diffs
}

// A message is the meaning of a line on the standard error: its kind, and its names.
type message struct {
	line  string
	kind  string
	names []string
}

// kinds are the meanings of messages, with words that identify them. The first match in a line
// counts, in upper or lower case.
var kinds = []struct {
	kind  string
	words []string
}{
	{"same file", []string{"are the same file"}},
	{"just created", []string{"just-created"}},
	{"into itself", []string{"into itself", "to a subdirectory of itself"}},
	{"twice", []string{"specified more than once"}},
	{"omitting", []string{"omitting directory"}},
	{"no directory by a file", []string{"cannot overwrite directory"}},
	{"no file by a directory", []string{"cannot overwrite non-directory"}},
	{"dangling", []string{"not writing through dangling symlink"}},
	{"dot", []string{"refusing to remove '.' or '..'"}},
	{"root", []string{"dangerous to operate recursively"}},
	{"no target", []string{"missing destination file operand", "missing operand", "missing file operand", "an argument is missing"}},
	{"extra", []string{"extra operand"}},
	{"mode", []string{"invalid mode"}},
	{"option", []string{"invalid option", "unrecognized option", "unknown flag", "unknown shorthand flag", "invalid argument", "is neither"}},
	{"exclusive", []string{"cannot combine", "use one of them", "none of the others can be"}},
	{"hard link to directory", []string{"hard link not allowed for directory"}},
	{"ask overwrite", []string{"overwrite '", "replace '"}},
	{"ask descend", []string{"descend into"}},
	{"ask many", []string{"arguments recursively", "remove 1 argument", "remove 4 arguments", "remove 5 arguments"}},
	{"ask remove", []string{"remove regular", "remove directory", "remove symbolic", "remove write-protected", "remove fifo"}},
	{"ENOENT", []string{"no such file or directory"}},
	{"ENOTDIR", []string{"not a directory"}},
	{"EISDIR", []string{"is a directory"}},
	{"ENOTEMPTY", []string{"directory not empty"}},
	{"EEXIST", []string{"file exists"}},
	{"EACCES", []string{"permission denied"}},
	{"EPERM", []string{"operation not permitted"}},
	{"ELOOP", []string{"too many levels of symbolic links"}},
	{"ENAMETOOLONG", []string{"file name too long"}},
	{"EBUSY", []string{"device or resource busy"}},
	{"ENOSPC", []string{"no space left on device"}},
	{"EXDEV", []string{"cross-device link"}},
	{"ETXTBSY", []string{"text file busy"}},
}

var quotedName = regexp.MustCompile(`'([^']*)'|(?:^|\s)([@%]/[^\s:']*)`)

// messages splits the standard error into messages. A question has no newline at its end.
func messages(stderr string) (ms []message) {
	for line := range strings.Lines(strings.NewReplacer("? ", "?\n", "/./", "/").Replace(stderr)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.Contains(line, "--help' for more information") ||
			strings.HasPrefix(line, "Valid arguments are") || strings.HasPrefix(line, "  - ") {
			continue
		}
		m := message{line: line}
		low := strings.ToLower(line)
		for _, k := range kinds {
			if slices.ContainsFunc(k.words, func(w string) bool { return strings.Contains(low, w) }) {
				m.kind = k.kind
				break
			}
		}
		for _, found := range quotedName.FindAllStringSubmatch(line, -1) {
			name := strings.TrimRight(found[1]+found[2], "/")
			m.names = append(m.names, name)
		}
		ms = append(ms, m)
	}
	return ms
}

// reason is in a line that only nfsrdma prints, once per command: it explains an EACCES by a
// directory's mode.
const reason = "is not allowed to write in"

// diffMessages compares two standard errors. For each message from coreutils, nfsrdma must have a
// message of the same kind with the same names. Only a line with reason is permitted beyond these
// messages.
func diffMessages(want, got string) (diffs []string) {
	rest := messages(got)
	if i := slices.IndexFunc(rest, func(g message) bool { return strings.Contains(g.line, reason) }); i >= 0 {
		rest = slices.Delete(rest, i, i+1)
	}
	for _, w := range messages(want) {
		i := slices.IndexFunc(rest, func(g message) bool {
			missing := func(name string) bool { return !strings.Contains(g.line, name) }
			return g.kind == w.kind && !slices.ContainsFunc(w.names, missing)
		})
		if i < 0 {
			diffs = append(diffs, fmt.Sprintf("stderr lacks %q", w.line))
			continue
		}
		rest = slices.Delete(rest, i, i+1)
	}
	for _, g := range rest {
		diffs = append(diffs, fmt.Sprintf("stderr has %q", g.line))
	}
	return diffs
}
