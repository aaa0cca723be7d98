// The commands in the documents: they and their flags are in the reference, and messages are the code's.

package test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// A command line in a block or in a span of code, without the rest of the line after a shell's separator.
	commandLine = regexp.MustCompile("(?m)(?:^(?:[$#] )?|`|&& |; |ExecStart(?:Pre)?=-?)(?:[\\w./]*/)?(nfsrdmad?)((?: [^\n`#&|;>\\\\]*)?)")
	longFlag    = regexp.MustCompile(`(?:^|[\s\[])--([a-z][a-z-]*)`)
	flagSpan    = regexp.MustCompile("`--([a-z][a-z-]*)[^`]*`")
	shellWord   = regexp.MustCompile(`^[a-z]+ -`) // a command with an option
	quoted      = regexp.MustCompile("`([^`]+)`")
)

// foreignFlags are flags of other programs that stand alone in the documents.
var foreignFlags = []string{
	"network", "pid", "user", // podman
	"cache-dir", "cache-size", "buffer-size", "upload-limit", "download-limit", "max-uploads", "io-retries", "heartbeat", "subdir", "shared-replies", "writeback",
	"skip-dir-mtime", // JuiceFS
	"port",           // rpc.mountd
	"flag",           // in a rule of CONTRIBUTING.md
}

// reference is the generated page of commands, by command.
func reference(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for s := range strings.SplitSeq(string(page), "\n## ") {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	return sections
}

// hasFlag reports whether the text of a command lists a flag.
func hasFlag(text, flag string) bool {
	return regexp.MustCompile(`--` + flag + `\b[^-]`).MatchString(text + "\n")
}

// named is the command that the words after the program's name call: with its subcommand, or with two.
func named(sections map[string]string, program string, words []string) string {
	command := program
	for _, w := range words {
		if _, ok := sections[command+" "+w]; !ok {
			break
		}
		command += " " + w
	}
	return command
}

func TestCommandsOfTheDocuments(t *testing.T) {
	sections := reference(t)
	all := strings.Join(slices.Collect(maps.Values(sections)), "\n")
	found := 0
	for _, doc := range documents(t) {
		if quotes(doc) || strings.Contains(doc, "/reference/") {
			continue
		}
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandLine.FindAllStringSubmatch(string(text), -1) {
			command := named(sections, m[1], strings.Fields(m[2]))
			found++
			for _, f := range longFlag.FindAllStringSubmatch(m[2], -1) {
				if flag := f[1]; flag != "help" && flag != "version" && !hasFlag(sections[command], flag) {
					t.Errorf("%s: %s has no flag --%s: %q", doc, command, flag, m[0])
				}
			}
		}
		for _, m := range flagSpan.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "version" && !slices.Contains(foreignFlags, m[1]) && !hasFlag(all, m[1]) {
				t.Errorf("%s: no command has the flag --%s", doc, m[1])
			}
		}
	}
	if found < 150 {
		t.Errorf("%d commands, want at least 150", found)
	}
}

// otherMessages are what other programs say in docs/troubleshooting.md: the C library's texts, mount's, the kernel's.
var otherMessages = regexp.MustCompile(`^(Permission denied|access denied by server.*|Read-only file system|Operation not supported|` +
	`Stale file handle|Input/output error|No space left on device|File exists|No such file|Transport endpoint is not connected|` +
	`No locks available|Resource deadlock avoided|rpc\.statd is not running|lockd: .*|no such host|AUTH_TOOWEAK)$`)

// A symptom in docs/troubleshooting.md that is written as a message is one: of the code, in a literal, or of another program.
func TestSymptomsAreMessages(t *testing.T) {
	page, err := os.ReadFile("../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var literals strings.Builder
	eachFile(t, func(path string, src []byte) {
		if !strings.HasSuffix(path, "_test.go") {
			literals.Write(src)
		}
	})
	found := 0
	for line := range strings.Lines(string(page)) {
		cell, ok := strings.CutPrefix(line, "| ")
		cell, _, _ = strings.Cut(cell, " | ")
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			message := m[1]
			if !ok || !strings.Contains(message, " ") || shellWord.MatchString(message) || otherMessages.MatchString(message) {
				continue
			}
			if found++; !strings.Contains(literals.String(), message) && !strings.Contains(literals.String(), strings.ReplaceAll(message, `"`, `\"`)) {
				t.Errorf("docs/troubleshooting.md: no program says %q", message)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d messages, want at least 10", found)
	}
}
