// Quoting compared with this machine's ls.

package text

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// lsTool runs coreutils' ls in a UTF-8 locale, or skips the test without coreutils.
func lsTool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("ls")
	if err != nil {
		machine.Skip(t, "no ls to compare with")
	}
	if v, err := exec.Command(path, "--version").Output(); err != nil || !strings.Contains(string(v), "coreutils") {
		machine.Skip(t, "ls is not that of coreutils")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ls %q: %v", args, err)
	}
	return string(out)
}

// oddNames returns each byte alone and beside others, and pairs of special characters.
func oddNames() []string {
	list := []string{"a b", "it's", `it's "both"`, "it's $x", "#a", "a#", "~a", "a~", "{", "}", "{}", "a{", "-x", "a'", "'", "''", "a\nb", "\nb",
		"a\n\nb'c", "ä", "ä'", "ä ö", "\xff", "a\xffb", "日本", "\u00a0", "a\u0085b", "\u2028", "é\xffé", "x\ty", "*", "a=b", "a:b", "a,b", "\x1b[31m",
		"'#", "'~a", "a'#", "'{", "\\", "a\\b", "a'\\", "😀", "\U0010ffff", "\ufffd"}
	for c := 1; c < 256; c++ {
		if c != '/' {
			list = append(list, "x"+string([]byte{byte(c)})+"y", string([]byte{byte(c)})+"z", string([]byte{'\'', byte(c)}))
		}
	}
	return list
}

func TestQuotingIsThatOfLs(t *testing.T) {
	dir := t.TempDir()
	made := make(map[string]bool)
	for _, name := range oddNames() {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		made[name] = true
	}
	raw := strings.Split(strings.TrimSuffix(lsTool(t, dir, "-AU", "--zero"), "\x00"), "\x00")
	if len(raw) != len(made) {
		t.Fatalf("%d names, made %d", len(raw), len(made))
	}
	for _, style := range Styles {
		// Whole listings are compared, because a call of ls for each name would be slow. With
		// --zero, ls allows only the literal style.
		var want, got strings.Builder
		want.WriteString(lsTool(t, dir, "-AU", "-1", "--quoting-style="+style))
		for _, name := range raw {
			got.WriteString(Quote(style, name) + "\n")
		}
		diffLines(t, style, got.String(), want.String())
	}
	var got strings.Builder
	for _, name := range raw {
		got.WriteString(HideControl(name) + "\n")
	}
	diffLines(t, "-q", got.String(), lsTool(t, dir, "-AU", "-1", "-q", "-N"))
}

// Names in messages match cat(1), where the name begins the message, and rm(1), where it stands in
// the middle.
func TestNamesInMessagesAreThoseOfCoreutils(t *testing.T) {
	for tool, c := range map[string]struct{ before, after string }{
		"cat": {"cat: ", ": No such file or directory\n"}, "rm": {"rm: cannot remove ", ": No such file or directory\n"},
	} {
		path, err := exec.LookPath(tool)
		if err != nil {
			machine.Skip(t, "no "+tool+" to compare with")
		}
		cmd := exec.Command(path, append([]string{"--"}, oddNames()...)...)
		cmd.Args[0], cmd.Dir = tool, t.TempDir()
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		out, _ := cmd.CombinedOutput() // fails, because the names do not exist
		rest := string(out)
		for _, name := range oddNames() {
			var want string
			want, rest, _ = strings.Cut(strings.TrimPrefix(rest, c.before), c.after)
			got := QuoteAlways(name)
			if tool == "cat" {
				got = QuoteNeeded(name)
				if plain := strings.Trim(want, "'"); plain == name && strings.Contains(name, ":") {
					want = plain // a URL's colon is no reason for quotes here
				}
			}
			if got != want {
				t.Errorf("%s: %q is written %s, want %s", tool, name, got, want)
			}
		}
	}
}

// A name quoted for a shell is one word: the name, byte by byte.
func TestShellsReadTheNameBack(t *testing.T) {
	shell, err := exec.LookPath("bash") // not every sh has $''
	if err != nil {
		machine.Skip(t, "no bash to read names back")
	}
	for _, style := range []string{ShellEscape, ShellEscapeAlways} {
		var script, want strings.Builder
		for _, name := range append(oddNames(), "") {
			script.WriteString("printf '%s\\0' " + Quote(style, name) + "\n")
			want.WriteString(name + "\x00")
		}
		cmd := exec.Command(shell)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		cmd.Stdin = strings.NewReader(script.String())
		got, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		diffLines(t, style, strings.ReplaceAll(string(got), "\x00", "\x00\n"), strings.ReplaceAll(want.String(), "\x00", "\x00\n"))
	}
}

// diffLines reports the lines that differ.
func diffLines(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("%s: line %d is %q, want %q", what, i, g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Errorf("%s: %d lines, want %d", what, len(g), len(w))
	}
}

// A quoted word is one word for sh.
func TestShellReadsWordsBack(t *testing.T) {
	words := []string{"/plain", "/a b", "it's", "'", "$(x)", "a\nb", "*", "\\", "`x`", "~", "", "a=b", "!", "#c", "-x", "é", "\xff"}
	script := "printf '%s\\0'"
	for _, w := range words {
		script += " " + ShellWord(w)
	}
	out, err := exec.Command("/bin/sh", "-c", script).Output()
	if err != nil || string(out) != strings.Join(words, "\x00")+"\x00" {
		t.Errorf("%q, %v; want %q", out, err, words)
	}
}
