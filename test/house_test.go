// How every source file looks: formatted, opened by a sentence, short, finished.

package test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Budgets: above them, a file or a function must be split.
const (
	maxFileLines = 500
	maxFuncLines = 80
)

// eachFile calls f with each Go file of the module, its path from the root.
func eachFile(t *testing.T, f func(path string, src []byte)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err == nil {
			files++
			f(strings.TrimPrefix(path, "../"), src)
		}
		return err
	})
	if err != nil || files < 50 {
		t.Fatalf("%d files, %v", files, err)
	}
}

func TestFormat(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		want, err := format.Source(src)
		if err != nil || !bytes.Equal(src, want) {
			t.Errorf("%s is not as gofmt wants it (%v)", path, err)
		}
	})
}

// TestOpenings: a file opens with a sentence about its content, and an empty line. A build
// constraint may stand before it, and more prose may follow after a bare "//". The doc of a package
// or command may take the sentence's place.
func TestOpenings(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		lines := strings.Split(string(src), "\n")
		if strings.HasPrefix(lines[0], "//go:build") {
			lines = lines[min(2, len(lines)):]
		}
		n := 0
		for n < len(lines) && strings.HasPrefix(lines[n], "//") {
			n++
		}
		doc := strings.HasPrefix(lines[0], "// Package ") || strings.HasPrefix(lines[0], "// Command ")
		switch {
		case n == 0 || !strings.HasPrefix(lines[0], "// "):
			t.Errorf("%s does not open with a comment", path)
		case doc:
		case !sentence(lines[:n]):
			t.Errorf("%s does not open with one sentence: %q", path, lines[0])
		case n == len(lines) || lines[n] != "":
			t.Errorf("%s: no empty line after the opening comment", path)
		}
	})
}

// sentence reports whether the first paragraph of a comment is one sentence, of two lines at most.
func sentence(comment []string) bool {
	n := slices.Index(comment, "//")
	if n < 0 {
		n = len(comment)
	}
	return n <= 2 && strings.HasSuffix(comment[n-1], ".")
}

func TestSizes(t *testing.T) {
	fset := token.NewFileSet()
	eachFile(t, func(path string, src []byte) {
		if n := bytes.Count(src, []byte("\n")); n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d", path, n, maxFileLines)
		}
		file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFuncLines {
				t.Errorf("%s: %s has %d lines, more than %d", path, f.Name.Name, n, maxFuncLines)
			}
		}
	})
}

// maxComment is the width of a comment's line, with tabs of four columns. Code and lists in
// comments may be wider.
const maxComment = 100

func TestCommentWidth(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		n := 0
		for line := range strings.Lines(string(src)) {
			n++
			text, ok := strings.CutPrefix(strings.TrimSpace(line), "//")
			if !ok || strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "  ") {
				continue
			}
			width := utf8.RuneCountInString(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "))
			if width > maxComment {
				t.Errorf("%s, line %d: a comment of %d columns, more than %d", path, n, width, maxComment)
			}
		}
	})
}

// TestFinished: no file has a mark for unfinished work.
func TestFinished(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		for _, mark := range []string{"TO" + "DO", "FIX" + "ME", "panic(\"st" + "ub"} {
			if bytes.Contains(src, []byte(mark)) {
				t.Errorf("%s contains %q", path, mark)
			}
		}
	})
}

// unplain has patterns for words to avoid, each with its replacement. A pattern is written in two
// parts so that this file may be searched too.
var unplain = []struct {
	not *regexp.Regexp
	but string
	// Stems of the words in lower case. A line without any of them is not searched, because
	// patterns are slow.
	stems []string
}{
	{regexp.MustCompile(`(?i)\boc` + `tets?\b`), "byte", []string{"oc" + "tet"}},
	{regexp.MustCompile(`(?i)\bjud` + `g(e[sd]?|ing|ment)\b`), "check, validate", []string{"jud" + "g"}},
	{regexp.MustCompile(`(?i)\breck` + `on(s|ed|ing)?\b`), "compute", []string{"reck" + "on"}},
	{regexp.MustCompile(`(?i)\b(come|go)(s|es)? ho` + `me\b`), "release, return to the pool", []string{" ho" + "me"}},
	{regexp.MustCompile(`(?i)\bhang(s|ing)? o` + `n\b`), "depend on", []string{"hang"}},
	{regexp.MustCompile(`(?i)\bbe` + `hind (it|them|an?|the (opening|header|list|last|first))\b`), "after", []string{"be" + "hind "}},
	{regexp.MustCompile(`(?i)\b(says|tells) whe` + `ther\b`), "reports whether", []string{"whe" + "ther"}},
	{regexp.MustCompile(`(?i)\bso ma` + `ny\b`), "n, count", []string{"so ma" + "ny"}},
	{regexp.MustCompile(`\bmay no` + `t\b`), "MUST NOT, does not", []string{"may no" + "t"}},
	{regexp.MustCompile(`(?i)\b(fare` + `well|wea` + `ther|bla` + `me[sd]?|land` + `ings?)\b`), "no metaphors", []string{"fare" + "well", "wea" + "ther", "bla" + "me", "land" + "ing"}},
	{regexp.MustCompile(`([jJ]ud` + `ge|[fF]are` + `well|[bB]la` + `me|[lL]and` + `ing|[oO]c` + `tets?)[A-Z_]|[a-z](Jud` + `ge|Fare` + `well|Bla` + `me|Land` + `ing|Oc` + `tet|Wea` + `ther)[ds]?\b`), "no metaphors in identifiers", []string{"jud" + "ge", "fare" + "well", "bla" + "me", "land" + "ing", "oc" + "tet", "wea" + "ther"}},
}

// unplainLines finds the lines with a word that is not used. An RFC quotation, a comment line that
// begins with a tab, keeps the RFC's words.
func unplainLines(src []byte) (found []string) {
	n := 0
	for line := range strings.Lines(string(src)) {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "//\t") {
			continue
		}
		lower := strings.ToLower(line)
		for _, w := range unplain {
			if !slices.ContainsFunc(w.stems, func(stem string) bool { return strings.Contains(lower, stem) }) {
				continue
			}
			if word := w.not.FindString(line); word != "" {
				found = append(found, fmt.Sprintf("line %d: %q: write %s", n, word, w.but))
			}
		}
	}
	return found
}

// quotes reports whether a document keeps the words of others: docs/conformance.md, which quotes
// the catalogue of requirements, and experiments, which stay as they were noted down.
func quotes(path string) bool {
	return filepath.Base(path) == "conformance.md" ||
		strings.Contains(path, experiments) && filepath.Base(path) != "README.md"
}

func TestWords(t *testing.T) {
	check := func(path string, src []byte) {
		for _, what := range unplainLines(src) {
			t.Errorf("%s, %s", path, what)
		}
	}
	eachFile(t, check)
	for _, path := range append(documents(t), "../CHANGELOG.md", "conformance/exceptions.tsv") {
		if quotes(path) {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		check(path, src)
	}
}

// counted is a count with a verb in the plural.
var counted = regexp.MustCompile(`"[^"]*%d ([a-z]+ )?[a-z]+s (are|were)\b`)

// TestCountsCanBeOne: no message reads "1 exports are served".
func TestCountsCanBeOne(t *testing.T) {
	eachFile(t, func(path string, src []byte) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") || strings.Contains(path, "/fstest/") {
			return // messages of tests
		}
		for _, s := range counted.FindAll(src, -1) {
			t.Errorf("%s: %s: use text.Plural, or name the number last", path, s)
		}
	})
}

// flagOfServer matches a message with a flag of nfsrdmad. fieldOfServer matches such a flag with
// its field in Go.
var (
	flagOfServer  = regexp.MustCompile(`"[^"]*[ (]--[a-z][^"]*"`)
	fieldOfServer = regexp.MustCompile(`--[a-z-]+ \(Squash\.[A-Z]\w+ in Go\)`)
)

// TestServerMessagesNameTheField: a program that serves with the library does not have nfsrdmad's
// flags.
func TestServerMessagesNameTheField(t *testing.T) {
	messages := 0
	eachFile(t, func(path string, src []byte) {
		if !strings.HasPrefix(path, "nfsserver/") || strings.HasPrefix(path, "nfsserver/juicefs/") || strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, s := range flagOfServer.FindAll(src, -1) {
			if messages++; !fieldOfServer.Match(s) {
				t.Errorf("%s: %s names a flag without its field, such as --trust-local (Squash.TrustLocal in Go)", path, s)
			}
		}
	})
	if messages < 5 {
		t.Errorf("%d messages of nfsserver with a flag, want the 5 that were there", messages)
	}
}

// TestWordsAreFound: the patterns find their words, and nothing else.
func TestWordsAreFound(t *testing.T) {
	for line, want := range map[string]int{
		"// n oc" + "tets of it": 1, "func jud" + "ge() {": 1, "x.wasJud" + "ged": 1, "the oc" + "tetCount": 1, "// It hang" + "s on y, and goes ho" + "me": 2,
		"// callers may no" + "t": 1, "// they may note": 0, "// says whe" + "ther": 1, "//\tan oc" + "tet, as the RFC has it": 0, "the weathercock lands": 0, "a byte of it": 0,
	} {
		if got := unplainLines([]byte(line)); len(got) != want {
			t.Errorf("%q: %q, want %d", line, got, want)
		}
	}
}
