// The documents: the code in them is the code that is compiled, their links lead somewhere.

package test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents returns the pages for users, by path from the root.
func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	lab, err := filepath.Glob("../docs/lab/*.md")
	if err != nil || len(lab) == 0 {
		t.Fatalf("%d experiments, %v", len(lab), err)
	}
	made, err := filepath.Glob("../docs/reference/*.md")
	if err != nil || len(made) == 0 {
		t.Fatalf("%d pages of the reference, %v", len(made), err)
	}
	return append(slices.Concat(docs, lab, made), "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "linux/README.md")
}

// TestReadmeFunction: the README's function is the example's, byte by byte. The example is compiled
// and run.
func TestReadmeFunction(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("examples/download/main.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(readme, -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of Go in the README, want one", len(blocks))
	}
	if !bytes.Contains(example, blocks[0][1]) {
		t.Errorf("the README's function is not in test/examples/download/main.go:\n%s", blocks[0][1])
	}
}

// readmeLines bounds how much a visitor to the README has to read.
const readmeLines = 150

func TestReadmeIsShort(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(readme, []byte("\n")); n > readmeLines {
		t.Errorf("the README has %d lines, want at most %d", n, readmeLines)
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinks(t *testing.T) {
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), string(m[1]))); err != nil {
				t.Errorf("%s: %v", strings.TrimPrefix(doc, "../"), err)
			}
		}
	}
}

var (
	anchored = regexp.MustCompile(`\]\(([^)#:\s]*)#([^)]*)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// The characters that a heading loses in its anchor: all but letters, digits, blanks, hyphens
	// and underscores.
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the places of a page that a link can name.
func anchors(page []byte) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllSubmatch(fenced.ReplaceAll(page, nil), -1) {
		plain := noAnchor.ReplaceAllString(strings.ToLower(string(m[1])), "")
		all[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return all
}

// TestAnchors: a link to a heading, on its own page or another, finds the heading there.
func TestAnchors(t *testing.T) {
	found := 0
	for _, doc := range append(documents(t), "../CHANGELOG.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range anchored.FindAllSubmatch(text, -1) {
			target := text
			if len(m[1]) > 0 {
				if target, err = os.ReadFile(filepath.Join(filepath.Dir(doc), string(m[1]))); err != nil {
					t.Errorf("%s: %v", doc, err)
					continue
				}
			}
			if found++; !anchors(target)[string(m[2])] {
				t.Errorf("%s: no heading in %q has the anchor %q", doc, m[1], m[2])
			}
		}
	}
	if found < 20 {
		t.Errorf("%d links with anchors, want at least 20", found)
	}
}

// TestEveryPageIsOnTheMap: docs/README.md links to every page.
func TestEveryPageIsOnTheMap(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	text, err := os.ReadFile("../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !bytes.Contains(text, []byte("("+name+")")) {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}

// A row of docs/tuning-internals.md names files, and constants in the first of its Go files.
var (
	inCode   = regexp.MustCompile("`([^`]+)`")
	goSource = regexp.MustCompile(`^[a-z0-9_/]+\.go$`)
)

// TestMechanismsAreWhereTheyAreSaidToBe: each mechanism's files exist, and declare its constants.
func TestMechanismsAreWhereTheyAreSaidToBe(t *testing.T) {
	page, err := os.ReadFile("../docs/tuning-internals.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 { // not a row of the table of kept mechanisms
			continue
		}
		code := ""
		for _, m := range inCode.FindAllStringSubmatch(cells[4], -1) {
			if !goSource.MatchString(m[1]) {
				t.Errorf("%q is no path of a Go file", m[1])
				continue
			}
			text, err := os.ReadFile("../" + m[1])
			if err != nil {
				t.Error(err)
			}
			code += string(text)
			rows++
		}
		for _, m := range inCode.FindAllStringSubmatch(cells[3], -1) {
			declared := regexp.MustCompile(`(?m)^(\t|const |\tconst )` + m[1] + `\s.*= `)
			if !declared.MatchString(code) {
				t.Errorf("%s does not declare the constant %s", strings.TrimSpace(cells[4]), m[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d files of mechanisms, want 10 at least: has the table another form?", rows)
	}
}
