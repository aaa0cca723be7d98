// Requirement ids in the code stand beside the section that they are of.

package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cited are the folders whose code is held to it.
var cited = []string{"../rnic", "../rpcrdma", "../chunks"}

var (
	requirementID = regexp.MustCompile(`R\d{4}-\d{3}`)
	citation      = regexp.MustCompile(`RFC (\d{4}) §([\w.]+) \[(R\d{4}-\d{3}(?: R\d{4}-\d{3})*)\]`)
)

// TestCitations: code names a requirement as `RFC 5040 §4.8 [R5040-086]`, with the section that
// the catalogue has for it.
func TestCitations(t *testing.T) {
	sections := requirementSections(t)
	found := 0
	for _, folder := range cited {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rest := string(src)
			for _, m := range citation.FindAllStringSubmatch(rest, -1) {
				for _, id := range strings.Fields(m[3]) {
					found++
					if want, ok := sections[id]; !ok || want != m[1]+" "+m[2] {
						t.Errorf("%s: %s is of %q, not of RFC %s §%s", path, id, want, m[1], m[2])
					}
				}
			}
			if ids := requirementID.FindAllString(citation.ReplaceAllString(rest, ""), -1); len(ids) > 0 {
				t.Errorf("%s: no section beside %q", path, ids)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("no requirement is named")
	}
}

// requirementSections is "RFC section" of each requirement in the catalogue.
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
