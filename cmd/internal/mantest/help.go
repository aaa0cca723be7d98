// Checks of help texts: line and sentence lengths.

package mantest

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Limits of a help text.
const (
	maxColumns      = 80
	maxMeanSentence = 18 // words, over all texts of a program
	maxSentence     = 40
)

var (
	listItem    = regexp.MustCompile(`(?m)^ .*$`)
	sentenceEnd = regexp.MustCompile(`[.!?]["')]*\s|\n\s*\n`)
)

// Help checks the line and sentence lengths in the help of a command and all commands below it.
func Help(t *testing.T, root *cobra.Command) {
	t.Helper()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	words, sentences := 0, 0
	each(root, func(cmd *cobra.Command) {
		// cobra writes the usage lines of completion, which grow with the program's name
		cobras := strings.Contains(cmd.CommandPath(), " completion")
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			if len([]rune(line)) > maxColumns && !cobras && !strings.HasPrefix(line, `Use "`+cmd.CommandPath()) {
				t.Errorf("%s --help: a line of %d columns, more than %d: %s", cmd.CommandPath(), len([]rune(line)), maxColumns, line)
			}
		}
		texts := []string{cmd.Short, listItem.ReplaceAllString(cmd.Long, "\n")}
		texts = append(texts, listItem.FindAllString(cmd.Long, -1)...)
		cmd.Flags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Usage) })
		for i, text := range texts {
			for _, s := range sentenceEnd.Split(text+"\n", -1) {
				n := len(strings.Fields(s))
				if n > maxSentence {
					t.Errorf("%s --help: a sentence of %d words, more than %d: %q", cmd.CommandPath(), n, maxSentence, s)
				}
				if i == 1 && n > 0 {
					words, sentences = words+n, sentences+1
				}
			}
		}
	})
	if words > maxMeanSentence*sentences {
		t.Errorf("%d words in %d sentences, more than %d in the mean", words, sentences, maxMeanSentence)
	}
	t.Logf("%s: %.1f words in a sentence", root.Name(), float64(words)/float64(max(sentences, 1)))
}

// each calls do for a command and for all visible commands below it.
func each(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, c := range slices.Clone(cmd.Commands()) {
		if !c.Hidden {
			each(c, do)
		}
	}
}
