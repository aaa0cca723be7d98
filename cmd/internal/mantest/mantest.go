// Package mantest holds manual pages against groff and against the help texts that they are made of.
package mantest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	Says(t, page, cmd.Short, cmd.Long)
	Says(t, page, cmd.Example)
	checkSections(t, cmd, page)
}

// checkSections checks that a page has the sections that its command needs, in the order of man-pages(7).
func checkSections(t *testing.T, cmd *cobra.Command, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "DIAGNOSTICS", "EXAMPLES", "SEE ALSO"}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\.SH (.*)$`).FindAllStringSubmatch(string(text), -1) {
		title := strings.TrimPrefix(m[1], " ")
		if !slices.Contains(want, title) {
			continue
		}
		if len(got) > 0 && slices.Index(want, title) <= slices.Index(want, got[len(got)-1]) {
			t.Errorf("%s: section %s after %s", page, title, got[len(got)-1])
		}
		got = append(got, title)
	}
	need := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "DIAGNOSTICS", "SEE ALSO"}
	if cmd.Runnable() {
		need = append(need, "OPTIONS", "EXIT STATUS", "EXAMPLES")
	}
	for _, title := range need {
		if !slices.Contains(got, title) && !exempt(cmd, title) {
			t.Errorf("%s has no section %s", page, title)
		}
	}
}

// exempt reports whether a page does without a section: the roots and tools of servers print no messages of their own.
func exempt(cmd *cobra.Command, title string) bool {
	return title == "DIAGNOSTICS" && strings.HasPrefix(cmd.Root().Name(), "nfsrdmad") && (!cmd.HasParent() || cmd.Name() == "man")
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
	cmd := exec.Command("groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-cbou", "-rHY=0", "-rLL=2000n", page)
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
