// The manual pages: what groff finds wrong with them, whether they say all that the help texts say, and that the units' are there.

package program

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/spf13/cobra"
)

// rendered is what a manual page says, in its words; what groff has against it is an error.
func rendered(t *testing.T, page string) []string {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd := exec.Command("groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-cbou", "-rHY=0", "-rLL=200n", page)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Errorf("%s: %v\n%s", page, err, &complaints)
	}
	return strings.Fields(strings.NewReplacer("‐", "-", "−", "-", "’", "'", "‘", "`").Replace(out.String()))
}

// missing is the first word of a text that is not among others in its order; "": there is none.
func missing(text string, among []string) string {
	for _, word := range strings.Fields(strings.NewReplacer("’", "'").Replace(text)) {
		at := slices.Index(among, word)
		if at < 0 {
			return word
		}
		among = among[at+1:]
	}
	return ""
}

// eachPage generates the pages and calls f with each command that has one, and its page.
func eachPage(t *testing.T, dir string, cmd *cobra.Command, section string, f func(*cobra.Command, string)) {
	t.Helper()
	if cmd.IsAvailableCommand() || !cmd.HasParent() {
		f(cmd, filepath.Join(dir, "man"+section, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+"."+section))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			eachPage(t, dir, c, section, f)
		}
	}
}

func TestManPages(t *testing.T) {
	if _, err := exec.LookPath("groff"); err != nil {
		machine.Skip(t, "needs groff")
	}
	dir := t.TempDir()
	if _, err := run(context.Background(), "man", dir); err != nil {
		t.Fatal(err)
	}
	check := func(cmd *cobra.Command, page string) {
		words := rendered(t, page)
		for _, text := range []string{cmd.Short, cmd.Long, cmd.Example} {
			if word := missing(text, words); word != "" {
				t.Errorf("%s lacks %q of %.60q", page, word, text)
			}
		}
	}
	pages := 0
	eachPage(t, dir, newRoot(), "8", func(cmd *cobra.Command, page string) {
		pages++
		if !strings.Contains(page, "completion") { // cobra's, in a form of its own
			check(cmd, page)
		}
	})
	check(grammarPage(), filepath.Join(dir, "man5", "nfsrdma-exports.5"))
	if pages < 10 || missing("nfsrdma-exports(5).", rendered(t, filepath.Join(dir, "man8", "nfsrdmad.8"))) != "" {
		t.Errorf("%d pages, and that of the program does not name that of the exports file", pages)
	}
	units, err := filepath.Glob("../../../deploy/nfsrdmad.*")
	if err != nil || len(units) == 0 {
		t.Fatal(units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		refs := regexp.MustCompile(`man:([a-z.-]+)\((\d)\)`).FindAllSubmatch(text, -1)
		if len(refs) == 0 {
			t.Errorf("%s names no manual page", unit)
		}
		for _, m := range refs {
			if _, err := os.Stat(filepath.Join(dir, "man"+string(m[2]), string(m[1])+"."+string(m[2]))); err != nil {
				t.Errorf("%s: %s: %v", unit, m[0], err)
			}
		}
	}
}
