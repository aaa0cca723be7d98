// The table of errors in docs/rnic.md: complete, and every place that it names is there.

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// TestEveryErrorHasItsPlace: each error code leads to the function that checks for it.
func TestEveryErrorHasItsPlace(t *testing.T) {
	page, err := os.ReadFile("../docs/rnic.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "## Where is the check for an error?")
	if !ok {
		t.Fatal("no table")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| (\d/\d/[0-9a-f]{2})\b.*\|$`).FindAllStringSubmatch(table, -1)
	listed := map[string]bool{}
	for _, row := range rows {
		listed[row[1]] = true
	}
	for layer := range 3 {
		for etype := range 3 {
			for code := range 256 {
				c := term.Code{Layer: uint8(layer), EType: uint8(etype), Code: uint8(code)}
				if layer == 0 && etype == 0 && code > 0 {
					continue // RDMAP ignores the code there
				}
				name := fmt.Sprintf("%d/%d/%02x", layer, etype, code)
				if c.Known() != listed[name] {
					t.Errorf("%s (%v): defined %v, in the table %v", name, c, c.Known(), listed[name])
				}
			}
		}
	}
	places := regexp.MustCompile("`([a-z_/]+\\.go): (\\w+)`").FindAllStringSubmatch(table, -1)
	if len(places) < 30 {
		t.Errorf("only %d places", len(places))
	}
	for _, p := range places {
		src, err := os.ReadFile(filepath.Join("../rnic", p[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + p[2] + `\(`).Match(src) {
			t.Errorf("%s has no function %s", p[1], p[2])
		}
	}
}
