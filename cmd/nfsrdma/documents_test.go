// The documents: their commands and flags exist in the programs, with their present spelling.

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/spf13/cobra"
)

var (
	codeOf = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	// A command line begins where the shell begins one, perhaps with a path, and ends before the
	// next, or a comment.
	commandLine = regexp.MustCompile(`(?m)(?:^|[/(=` + "`" + `]|(?:\$|#|&&|\||;|sudo|time|exec) +)(nfsrdma|nfsrdmad(?:-juicefs)?)((?: +[^\s|&;#)` + "`" + `]+)+)`)
	loneFlag    = regexp.MustCompile("^`--([a-z0-9-]+)[^`]*`$")
)

// ofOthers has flags of podman and juicefs.
var ofOthers = []string{"network", "user", "pid", "skip-dir-mtime", "writeback", "enable-acl"}

// unknownFlag returns the first word of a command line that is neither a command nor a flag of the
// program, or "".
func unknownFlag(root *cobra.Command, words []string) string {
	cmd, below := root, true
	for i, word := range words {
		if cmd.Name() == "mount" && i > 0 && words[i-1] == "-o" {
			if o := unknownOption(word); o != "" {
				return o
			}
		}
		name, isFlag := strings.CutPrefix(word, "--")
		if !isFlag {
			below = below && !strings.HasPrefix(word, "-")
			if i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == word }); i >= 0 && below {
				cmd = cmd.Commands()[i]
			}
			continue
		}
		name, _, _ = strings.Cut(strings.TrimRight(name, ".,:'\""), "=")
		if name != "" && name != "help" && name != "version" && !hasFlag(cmd, name) {
			return word
		}
	}
	return ""
}

// unknownOption returns the first unknown mount option in a list.
func unknownOption(list string) string {
	for option := range strings.SplitSeq(strings.Trim(list, `"'`), ",") {
		name, _, _ := strings.Cut(option, "=")
		if name != "…" && name != "help" && !slices.ContainsFunc(mountopt.Rows(), func(r mountopt.Row) bool {
			return slices.ContainsFunc(r.Usage, func(u string) bool { u, _, _ = strings.Cut(u, "="); return strings.TrimSuffix(u, "[") == name })
		}) {
			return option
		}
	}
	return ""
}

// hasFlag reports whether the help of a command shows a flag.
func hasFlag(cmd *cobra.Command, name string) bool {
	f := cmd.Flag(name)
	return f != nil && !f.Hidden && f.Deprecated == ""
}

func anyHasFlag(cmd *cobra.Command, name string) bool {
	return hasFlag(cmd, name) || slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return anyHasFlag(c, name) })
}

// eachDocument calls f with each page for users. Pages of experiments are left out: their commands
// are as old as they.
func eachDocument(t *testing.T, f func(path, text string)) {
	t.Helper()
	paths := []string{"README.md"}
	err := fs.WalkDir(os.DirFS("../.."), "docs", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "lab":
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("fs.WalkDir: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		f(path, string(text))
	}
}

func TestDocumentsNameFlags(t *testing.T) {
	roots := map[string]*cobra.Command{"nfsrdma": newRoot(&session.Session{}), "nfsrdmad": program.NewRoot(nil), "nfsrdmad-juicefs": volumesRoot()}
	lines := 0
	eachDocument(t, func(path, text string) {
		for _, span := range codeOf.FindAllString(text, -1) {
			if m := loneFlag.FindStringSubmatch(span); m != nil && !slices.Contains(ofOthers, m[1]) &&
				!anyHasFlag(roots["nfsrdma"], m[1]) && !anyHasFlag(roots["nfsrdmad"], m[1]) && !anyHasFlag(roots["nfsrdmad-juicefs"], m[1]) {
				t.Errorf("%s: %s is a flag of no program", path, span)
			}
			for _, m := range commandLine.FindAllStringSubmatch(span, -1) {
				lines++
				if word := unknownFlag(roots[m[1]], strings.Fields(m[2])); word != "" {
					t.Errorf("%s: %s has no %s: %s%s", path, m[1], word, m[1], m[2])
				}
			}
		}
	})
	if lines < 100 {
		t.Errorf("%d command lines, want at least 100", lines)
	}
}

// TestWrongFlagsAreFound: an unknown flag, option or spelling is found anywhere in a command line.
func TestWrongFlagsAreFound(t *testing.T) {
	root := newRoot(&session.Session{})
	for line, want := range map[string]string{
		"nfsrdma ls -l --json a:/b": "", "nfsrdma ls --jsn a:/b": "--jsn", "sudo nfsrdma mount -o soft,timeo=5 a:/b /c": "", "/usr/bin/nfsrdma mount -o soft,timo=5": "timo=5",
		"x | nfsrdma verbs perf --bogus": "--bogus", "nfsrdma cp a --json": "--json", "podman run nfsrdma --user": "", "nfsrdma cp a b # --bogus": "",
	} {
		got := ""
		if m := commandLine.FindStringSubmatch(line); m != nil {
			got = unknownFlag(root, strings.Fields(m[2]))
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestDocumentsNameMetrics: the metrics in the documents exist.
func TestDocumentsNameMetrics(t *testing.T) {
	list, err := program.Metrics()
	if err != nil {
		t.Fatalf("Metrics: %v", err)
	}
	there := map[string]bool{}
	for _, m := range list {
		there[m.Name] = true
	}
	named := regexp.MustCompile(`\bnfsrdma_[a-z_]+`)
	found := 0
	eachDocument(t, func(path, text string) {
		for _, name := range named.FindAllString(text, -1) {
			found++
			for _, part := range []string{"_bucket", "_sum", "_count"} { // histogram suffixes
				name = strings.TrimSuffix(name, part)
			}
			if !there[name] {
				t.Errorf("%s: there is no metric %s", path, name)
			}
		}
	})
	if found < 40 {
		t.Errorf("%d names, want at least 40", found)
	}
}
