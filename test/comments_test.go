// The words of comments: nouns and verbs of the field, and few of the words that stand in for them.

package test

import (
	"fmt"
	"go/parser"
	"go/token"
	"math"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Limits for the comments of all code but tests, for each 1,000 of their words.
var wordLimits = []struct {
	words string
	limit float64
}{
	{"what whatever", 1.5},
	{"who whose whoever whom", 0.3},
	{"told tell tells", 0.3},
	{"nobody somebody", 0.2},
	{"that", 12},
	{"of", 24},
}

// commentShare is the share of comment lines in a package of protocol or locking, in percent of the
// lines that are not empty. Less leaves reasons, units, owners and locks out. More repeats the
// code.
var commentShare = struct {
	low, high float64
	packages  []string
}{15, 22, []string{
	"nfsclient", "nfsclient/fusefs", "nfsclient/fusefs/fuseloop", "nfsclient/internal/datapath", "nfsclient/nlm",
	"nfsserver", "nfsserver/nlm", "nfsserver/osfs", "rnic/iwarp", "rnic/iwarp/core", "rnic/roce", "rnic/roce/cm",
	"rnic/roce/core", "rnic/roce/packet", "rpcrdma", "transport",
}}

var commentWord = regexp.MustCompile(`[A-Za-z']+`)

// A commentText is one comment: the words of its lines, without code that it shows.
type commentText struct {
	line int // of the file, the first
	text string
}

// commentsOf returns the comments of a file. Lines of code in a comment, which begin with a tab,
// and directives are left out.
func commentsOf(src []byte) (all []commentText) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	for _, g := range f.Comments {
		var b strings.Builder
		for _, c := range g.List {
			text := strings.TrimPrefix(c.Text, "//")
			if strings.HasPrefix(text, "go:") || strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "  ") {
				continue
			}
			b.WriteString(strings.TrimSpace(text) + "\n")
		}
		all = append(all, commentText{fset.Position(g.Pos()).Line, b.String()})
	}
	return all
}

// fileLines counts the lines of a file that are not empty, and those that are comments alone.
func fileLines(src []byte) (all, comments int) {
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if line != "" {
			all++
		}
		if strings.HasPrefix(line, "//") {
			comments++
		}
	}
	return all, comments
}

// personal are words for persons. A goroutine, a function or a value is not a person.
var personal = regexp.MustCompile(`(?i)\b(who|whoever|whom|nobody|somebody|told|tells?)\b`)

// persons are users and hosts in comments, the name of a user, and functions that a comment names.
var persons = regexp.MustCompile(`\bNobody\b|\b(user|users|caller|callers|attacker|readers|programmers|people|those),? who\b|` +
	`\bas whom\b|\b(user|to|write) nobody\b|\b(calls|call|With) tell\b|(^|\n)(who|told|tells?|nobody) (returns|reports|simulates|checks|holds|is|are|was)\b`)

// clauseOpening is a sentence that begins with a clause in place of a noun.
var clauseOpening = regexp.MustCompile(`(^|[.:;!?] |\n\n)(What|Who|Whoever|Whatever)\b`)

// commentFaults returns the faults of one comment.
func commentFaults(text string) (faults []string) {
	if w := clauseOpening.FindString(text); w != "" {
		faults = append(faults, fmt.Sprintf("a sentence begins with %q: begin with a noun or an imperative", strings.TrimSpace(w)))
	}
	n := 0
	for _, w := range commentWord.FindAllString(text, -1) {
		if strings.EqualFold(w, "what") {
			n++
		}
	}
	if n > 1 {
		faults = append(faults, fmt.Sprintf("%d times \"what\": name the thing", n))
	}
	if w := personal.FindAllString(persons.ReplaceAllString(text, ""), -1); len(w) > 0 {
		faults = append(faults, fmt.Sprintf("%q: code reports, returns, notifies; persons are rare", w))
	}
	return faults
}

// TestComments checks each comment.
func TestComments(t *testing.T) {
	eachFile(t, func(file string, src []byte) {
		if in(file, unplainComments...) {
			return
		}
		for _, c := range commentsOf(src) {
			for _, fault := range commentFaults(c.text) {
				t.Errorf("%s, line %d: %s", file, c.line, fault)
			}
		}
	})
}

// TestCommentWordsStayRare counts words over the comments of all code but tests.
func TestCommentWordsStayRare(t *testing.T) {
	count, all := map[string]int{}, 0
	eachFile(t, func(file string, src []byte) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, c := range commentsOf(src) {
			for _, w := range commentWord.FindAllString(c.text, -1) {
				count[strings.ToLower(w)]++
				all++
			}
		}
	})
	for _, l := range wordLimits {
		n := 0
		for w := range strings.FieldsSeq(l.words) {
			n += count[w]
		}
		if rate := 1000 * float64(n) / float64(all); rate > l.limit {
			t.Errorf("%s: %.2f of 1,000 words of comments, more than %v", l.words, rate, l.limit)
		}
	}
}

// TestCommentShare keeps packages of protocol and locking explained, and not more than that.
func TestCommentShare(t *testing.T) {
	comments, lines := map[string]int{}, map[string]int{}
	eachFile(t, func(file string, src []byte) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		all, n := fileLines(src)
		comments[path.Dir(file)] += n
		lines[path.Dir(file)] += all
	})
	for _, p := range commentShare.packages {
		share := math.Round(100 * float64(comments[p]) / float64(max(lines[p], 1)))
		if share < commentShare.low || share > commentShare.high {
			t.Errorf("%s: %.0f %% of the lines are comments, want %v to %v", p, share, commentShare.low, commentShare.high)
		}
	}
}

// TestCommentsAreChecked: the checker finds its faults, and no others.
func TestCommentsAreChecked(t *testing.T) {
	for text, want := range map[string]int{
		"A request has one owner.":                       0,
		"What is left stays.":                            1,
		"It is done. Who asks is answered.":              2,
		"what it has is what it holds":                   1,
		"reports what the peer has sent":                 0,
		"The loop is told by somebody, whose lock it is": 1,
		"somewhat whatnot foretold":                      0,
		"Only root and users who own it are answered.":   0,
		"who returns the caller, Nobody if unknown":      0,
	} {
		if got := commentFaults(text); len(got) != want {
			t.Errorf("%q: faults %q, want %d", text, got, want)
		}
	}
	src := "// One.\n\n// Package x: two words.\n//\n//\twho code\npackage x\n\n//go:noinline\nfunc f() {} // three\n"
	comments := commentsOf([]byte(src))
	if len(comments) != 4 {
		t.Errorf("%d comments, want 4: %v", len(comments), comments)
	}
	if lines, alone := fileLines([]byte(src)); lines != 7 || alone != 5 {
		t.Errorf("%d lines, %d of them comments; want 7 and 5", lines, alone)
	}
	for _, c := range comments {
		if faults := commentFaults(c.text); len(faults) > 0 {
			t.Errorf("%q: faults %q, want none", c.text, faults)
		}
	}
}

// unplainComments are files and folders that are not checked.
var unplainComments = []string{
	"test/linux/cmd/locker/main.go", // the name of a word of its language
}

// unplainProse matches words that documents avoid. Only users and hosts may have a relative pronoun
// for persons there.
var unplainProse = regexp.MustCompile(`(?i)\b(told|somebody|whoever)\b`)

// quotation is code, such as a message, and other words in quotation marks.
var quotation = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")

// TestDocumentsNameThings checks the sentences and table cells of documents.
func TestDocumentsNameThings(t *testing.T) {
	for _, doc := range append(documents(t), "../CHANGELOG.md") {
		if quotes(doc) || strings.HasPrefix(doc, "../"+experiments) {
			continue
		}
		src, err := os.ReadFile(doc)
		if err != nil {
			t.Errorf("os.ReadFile: %v", err)
			continue
		}
		p := readPage(string(src))
		for _, s := range append(p.sentences, p.cells...) {
			if w := unplainProse.FindString(quotation.ReplaceAllString(s, "")); w != "" {
				t.Errorf("%s: %q in %q", doc, w, s)
			}
		}
		for _, s := range p.sentences {
			if clauseOpening.MatchString(s) {
				t.Errorf("%s: a sentence begins with a clause: %q", doc, s)
			}
		}
	}
}

// TestSubjects checks the subjects of the latest commits, where authors work.
func TestSubjects(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "log", "-20", "--no-merges", "--format=%s").Output()
	if err != nil || os.Getenv("CI") == "true" {
		t.Logf("not checked: a checkout in CI need not have the authors' history (%v)", err)
		return
	}
	for subject := range strings.Lines(string(out)) {
		subject = strings.TrimSpace(subject)
		if n := len(subject); n > maxSubject {
			t.Errorf("%q has %d bytes, more than %d", subject, n, maxSubject)
		}
		if w := unplainProse.FindString(subject); w != "" {
			t.Errorf("%q in the subject %q", w, subject)
		}
	}
}

// maxSubject is the length of a commit's subject, in bytes.
const maxSubject = 72
