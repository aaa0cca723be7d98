// Package mantest checks manual pages with groff, and against their help texts.
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

// HaveGroff reports whether groff is installed. No page can be checked without it.
func HaveGroff() bool {
	_, err := exec.LookPath("groff")
	return err == nil
}

// Commands checks the pages in dir for a command and all commands below it, and returns their
// number. The pages of cobra's completion have a different form: they must exist and are not
// checked.
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

// Name returns the file name of a page.
func Name(dir, name, section string) string {
	return filepath.Join(dir, "man"+section, name+"."+section)
}

// Page checks that a page contains the help texts of its command.
func Page(t *testing.T, cmd *cobra.Command, page string) {
	t.Helper()
	Says(t, page, cmd.Short, cmd.Long)
	Says(t, page, cmd.Example)
	checkSections(t, cmd, page)
}

// checkSections checks that a page has the sections its command needs, in the order of
// man-pages(7).
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

// exempt reports whether a page may lack a section: the roots and tools of servers print no
// messages.
func exempt(cmd *cobra.Command, title string) bool {
	return title == "DIAGNOSTICS" && strings.HasPrefix(cmd.Root().Name(), "nfsrdmad") && (!cmd.HasParent() || cmd.Name() == "man")
}

// Says checks that groff accepts a page, and that the page has the words of each text in order.
func Says(t *testing.T, page string, texts ...string) {
	t.Helper()
	words := rendered(t, page)
	for _, text := range texts {
		if word := missing(text, words); word != "" {
			t.Errorf("%s lacks %q of %.60q", page, word, text)
		}
	}
}

// rendered returns the words of a formatted page. The test fails if groff reports a problem.
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

// missing returns the first word of text that among lacks in the same order, or "".
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
