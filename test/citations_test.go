// Requirement ids in the code stand beside their section.

package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	requirementID = regexp.MustCompile(`R\d{4}-\d{3}`)
	citation      = regexp.MustCompile(`RFC (\d{4}) §([\w.]+) \[(R\d{4}-\d{3}(?: R\d{4}-\d{3})*)\]`)
	ibID          = regexp.MustCompile(`IBU-\d{3}`)
	goesOn        = regexp.MustCompile(`\n\s*// ?`) // a comment that goes on in the next line
	// arguments of conformance.Proves, names of cases
	claimedIDs = regexp.MustCompile(`"[^"\n]*R\d{4}-\d{3}[^"\n]*"`)
)

// TestCitations: code names a requirement as `RFC 5040 §4.8 [R5040-086]`, with its section from the
// catalogue. Claims of tests, and the names of their cases, are ids alone.
func TestCitations(t *testing.T) {
	sections := requirementSections(t)
	found := 0
	eachFile(t, func(path string, src []byte) {
		if path == "test/citations_test.go" || path == "test/conformance/conformance_test.go" {
			// these files have invented ids
			return
		}
		text := goesOn.ReplaceAllString(claimedIDs.ReplaceAllString(string(src), ""), " ")
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			for _, id := range strings.Fields(m[3]) {
				found++
				if want, ok := sections[id]; !ok || want != m[1]+" "+m[2] {
					t.Errorf("%s: %s is of %q, not of RFC %s §%s", path, id, want, m[1], m[2])
				}
			}
		}
		if ids := requirementID.FindAllString(citation.ReplaceAllString(text, ""), -1); len(ids) > 0 {
			t.Errorf("%s: no section beside %q", path, ids)
		}
	})
	// InfiniBand sections are written in words: only the id is checked.
	eachFile(t, func(path string, src []byte) {
		for _, id := range ibID.FindAllString(string(src), -1) {
			if _, ok := sections[id]; !ok {
				t.Errorf("%s: the catalogue has no %s", path, id)
			}
		}
	})
	if found < 300 {
		t.Errorf("%d requirements are named", found)
	}
}

// requirementSections returns the RFC and section of each requirement in the catalogue, such as
// "6581 9.1".
func requirementSections(t *testing.T) map[string]string {
	t.Helper()
	tables, err := filepath.Glob("conformance/rows/*.tsv")
	if err != nil || len(tables) == 0 {
		t.Fatal("no catalogue: ", err)
	}
	sections := make(map[string]string)
	for _, table := range tables {
		b, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			cols := strings.Split(line, "\t")
			if len(cols) >= 2 && ibID.MatchString(cols[0]) {
				sections[cols[0]] = cols[1]
				continue
			}
			if len(cols) < 2 || !requirementID.MatchString(cols[0]) {
				continue
			}
			words := strings.Fields(cols[1]) // "4.8", "7.1.2 (9)", or of another RFC "6581 9.1"
			if len(words) > 1 && regexp.MustCompile(`^\d{4}$`).MatchString(words[0]) {
				sections[cols[0]] = words[0] + " " + words[1]
			} else if len(words) > 0 {
				sections[cols[0]] = cols[0][1:5] + " " + words[0]
			}
		}
	}
	return sections
}
