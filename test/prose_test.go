// The prose of the documents: short sentences, short cells, tables with headers, experiments in one
// form.

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Limits of a page, in words, and of its length.
const (
	maxMeanSentence = 18
	maxSentence     = 40
	maxCell         = 40
	maxLines        = 300
)

// unedited lists the pages that do not keep these limits yet. The list only shrinks: a page that
// keeps them must leave it.
var unedited = []string{
	"docs/conformance.md", // generated from requirements in the RFCs' words
}

// experiments are kept as they were noted down, and not edited.
const experiments = "docs/lab/"

var (
	fenced     = regexp.MustCompile("(?ms)^```.*?^```$")
	inlineCode = regexp.MustCompile("`[^`]*`")
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	listItem   = regexp.MustCompile(`^([-*]|[0-9]+\.) `)
	tableRule  = regexp.MustCompile(`^\|[-| :]*-[-| :]*\|$`)
	// A sentence ends with a full stop, perhaps a bracket, then a blank and a character that can
	// start one.
	sentenceEnd = regexp.MustCompile(`[.!?][)"*]*\s+[A-Z"*(0-9]`)
	wordIn      = regexp.MustCompile(`\w`)
)

// A page is the prose of a document.
type page struct {
	sentences, cells []string
	headless         int // tables with an empty cell in their header
	lines            int
}

// words counts the words of a text; code is one word.
func words(text string) (n int) {
	for f := range strings.FieldsSeq(inlineCode.ReplaceAllString(text, "CODE")) {
		if wordIn.MatchString(f) {
			n++
		}
	}
	return n
}

// readPage takes a document apart. Code and headings are no prose; a list's item is a paragraph.
func readPage(text string) (p page) {
	var paragraph []string
	end := func() {
		p.sentences = append(p.sentences, sentencesOf(strings.Join(paragraph, " "))...)
		paragraph = nil
	}
	p.lines = strings.Count(text, "\n")
	lines := strings.Split(fenced.ReplaceAllString(text, "\n"), "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		switch {
		case tableRule.MatchString(line):
		case strings.HasPrefix(line, "|"):
			end()
			cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, " "), "|"), "|")
			for j, c := range cells {
				cells[j] = strings.TrimSpace(c)
			}
			p.cells = append(p.cells, cells...)
			if i+1 < len(lines) && tableRule.MatchString(strings.TrimSpace(lines[i+1])) && slices.Contains(cells, "") {
				p.headless++
			}
		case line == "" || strings.HasPrefix(line, "#"):
			end()
		case listItem.MatchString(line):
			end()
			paragraph = []string{listItem.ReplaceAllString(line, "")}
		default:
			paragraph = append(paragraph, line)
		}
	}
	end()
	return p
}

// sentencesOf cuts a paragraph.
func sentencesOf(paragraph string) (all []string) {
	text := linkText.ReplaceAllString(inlineCode.ReplaceAllString(paragraph, "CODE"), "$1")
	for {
		end := sentenceEnd.FindStringIndex(text)
		if end == nil {
			break
		}
		all = append(all, strings.TrimSpace(text[:end[1]-1]))
		text = text[end[1]-1:]
	}
	if all = append(all, strings.TrimSpace(text)); words(all[len(all)-1]) == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// faults returns the places in a page where readers stumble.
func (p page) faults() (found []string) {
	sum := 0
	for _, s := range p.sentences {
		n := words(s)
		if sum += n; n > maxSentence {
			found = append(found, fmt.Sprintf("a sentence of %d words, more than %d: %q", n, maxSentence, s))
		}
	}
	if n := len(p.sentences); n > 0 && sum > maxMeanSentence*n {
		found = append(found, fmt.Sprintf("sentences of %.1f words in the mean, more than %d", float64(sum)/float64(n), maxMeanSentence))
	}
	for _, c := range p.cells {
		if n := words(c); n > maxCell {
			found = append(found, fmt.Sprintf("a cell of %d words, more than %d: %q", n, maxCell, c))
		}
	}
	if p.lines > maxLines {
		found = append(found, fmt.Sprintf("%d lines, more than %d", p.lines, maxLines))
	}
	if p.headless > 0 {
		found = append(found, fmt.Sprintf("%d tables with an empty column header", p.headless))
	}
	return found
}

func TestProse(t *testing.T) {
	seen := map[string]bool{}
	for _, doc := range append(documents(t), "../CHANGELOG.md") {
		name := strings.TrimPrefix(filepath.Join("test", doc), "test/../")
		if name = filepath.Clean(name); strings.HasPrefix(name, experiments) && filepath.Base(name) != "README.md" {
			continue
		}
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		p := readPage(string(text))
		if strings.HasPrefix(name, "docs/reference/") {
			p.lines = 0 // these are looked up, not read
		}
		found := p.faults()
		seen[name] = true
		switch {
		case !slices.Contains(unedited, name):
			for _, f := range found {
				t.Errorf("%s: %s", name, f)
			}
		case len(found) == 0:
			t.Errorf("%s keeps the limits: take it out of the list of pages that do not", name)
		}
	}
	for _, name := range unedited {
		if !seen[name] {
			t.Errorf("%s is in the list and is no document", name)
		}
	}
}

// TestProseIsChecked: the checker finds its faults, and nothing else.
func TestProseIsChecked(t *testing.T) {
	long := strings.Repeat("word ", maxSentence+1)
	for text, want := range map[string]int{
		"Two words. " + long + ".\n\nOne. Two. Three.": 1, // and the mean of 10 is kept
		long + "end.": 2, // too long, and the mean
		"| a | b |\n|---|---|\n| " + long + " | x |\n":                                   1,
		"| | b |\n|---|---|\n| x | |\n":                                                  1,
		"| | |\n|---|---|\n| x | y |\n":                                                  1,
		strings.Repeat("#\n", maxLines+1):                                                1,
		"```\n" + long + "\n```\n":                                                       0,
		"# " + long + "\n\nA [link](to/a/page.md).\n":                                    0,
		"Code `" + long + "` is one word.\n":                                             0,
		"- an item without an end\n- " + strings.Repeat("word ", maxMeanSentence) + "\n": 0,
	} {
		if got := readPage(text).faults(); len(got) != want {
			t.Errorf("%.60q: %q, want %d faults", text, got, want)
		}
	}
}

// TestExperimentsHaveOneForm: every experiment has its four parts, once and in order, and appears
// in the index.
func TestExperimentsHaveOneForm(t *testing.T) {
	pages, err := filepath.Glob("../" + experiments + "*.md")
	if err != nil || len(pages) < 2 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	index, err := os.ReadFile("../" + experiments + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		name := filepath.Base(path)
		if name == "README.md" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, part := range []string{"# ", "\n**Question.** ", "\n**Set-up.** ", "\n**Figure.**\n", "\n**Conclusion.** "} {
			i := strings.Index(string(text)[at:], part)
			if i < 0 {
				t.Errorf("%s has no %q in its place", path, strings.TrimSpace(part))
				break
			}
			at += i + 1
		}
		if !strings.Contains(string(index), "("+name+")") {
			t.Errorf("%s is not in the index", path)
		}
	}
}
