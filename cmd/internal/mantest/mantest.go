// Package mantest holds manual pages against groff and against the help texts that they are made of.
package mantest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// HaveGroff reports whether there is groff, without which no page can be checked.
func HaveGroff() bool {
	_, err := exec.LookPath("groff")
	return err == nil
}

// Commands checks the pages in dir of a command and all that are below it, and returns how many there are. The
// pages of cobra's completion, which are in a form of their own, have to be there and are not checked.
func Commands(t *testing.T, dir string, cmd *cobra.Command, section string) (pages int) {
	t.Helper()
	if cmd.IsAvailableCommand() || !cmd.HasParent() {
		pages++
		if page := Name(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-"), section); !strings.Contains(page, "completion") {
			Page(t, cmd, page)
		}
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			pages += Commands(t, dir, c, section)
		}
	}
	return pages
}

// Name is the file of a page.
func Name(dir, name, section string) string {
	return filepath.Join(dir, "man"+section, name+"."+section)
}

// Page checks that a page says all that the help texts of its command say.
func Page(t *testing.T, cmd *cobra.Command, page string) {
	t.Helper()
	Says(t, page, cmd.Short, cmd.Long, cmd.Example)
}

// Says checks that groff finds nothing wrong with a page, and that it has the words of each text in their order.
func Says(t *testing.T, page string, texts ...string) {
	t.Helper()
	words := rendered(t, page)
	for _, text := range texts {
		if word := missing(text, words); word != "" {
			t.Errorf("%s lacks %q of %.60q", page, word, text)
		}
	}
}

// rendered is what a page says, in its words; what groff has against it is an error.
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
