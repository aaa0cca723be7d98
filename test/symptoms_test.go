// The messages in two documents come from our code or from other programs.

package test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	// otherWords matches code in a symptom that is no message of ours: a command with an option,
	// and messages from the C library, mount and the kernel.
	otherWords = regexp.MustCompile(`^([a-z]+ -.*|Permission denied|access denied by server.*|Read-only file system|Operation not supported|` +
		`Stale file handle|Input/output error|No space left on device|File exists|No such file|Transport endpoint is not connected|` +
		`No locks available|Resource deadlock avoided|rpc\.statd is not running|lockd: .*|no such host)$`)
)

func TestSymptomsAreMessages(t *testing.T) {
	var pages []byte
	for _, name := range []string{"troubleshooting", "monitor"} {
		page, err := os.ReadFile("../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page...)
	}
	var code strings.Builder
	eachFile(t, func(path string, src []byte) {
		if !strings.HasSuffix(path, "_test.go") {
			code.Write(src)
		}
	})
	found := 0
	for line := range strings.Lines(string(pages)) {
		symptom, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(symptom, -1) {
			message := strings.TrimRight(m[1], " …")
			if !strings.Contains(message, " ") || otherWords.MatchString(message) {
				continue
			}
			if found++; !strings.Contains(code.String(), message) {
				t.Errorf("no program of ours has the message %q", message)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d messages, want at least 10", found)
	}
}
