// Help texts, wrapped for a terminal.

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the line length of help, in columns.
const helpWidth = 80

// wrapHelp wraps the help of root and all commands below it to helpWidth.
func wrapHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", helpWidth)))
	wrapLong(root)
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		wrapLong(cmd) // cobra adds the completion command only when the program runs
		show(cmd, args)
	})
}

func wrapLong(cmd *cobra.Command) {
	cmd.Long = wrapText(cmd.Long)
	for _, c := range cmd.Commands() {
		wrapLong(c)
	}
}

// wrapText rewraps a help text: its paragraphs and its two-column text (see definitions).
func wrapText(text string) string {
	var out, paragraph, block []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, wrapLines(strings.Join(paragraph, " "), "", "")...)
		}
		out = append(out, wrapBlock(block)...)
		paragraph, block = nil, nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "":
			flush()
			out = append(out, "")
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			if len(paragraph) > 0 {
				flush()
			}
			block = append(block, line)
		default:
			if len(block) > 0 {
				flush()
			}
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

// wrapBlock rewraps two-column lines. Other indented lines stay unchanged.
func wrapBlock(block []string) (out []string) {
	var terms, meanings []string
	widest := 0
	for _, line := range block {
		rest, ok := strings.CutPrefix(line, "  ")
		name, meaning, two := strings.Cut(rest, "  ")
		switch {
		case ok && strings.HasPrefix(rest, " ") && terms != nil:
			meanings[len(meanings)-1] += " " + strings.TrimSpace(rest)
			continue
		case !ok || !two || strings.HasPrefix(rest, " "):
			return block
		}
		terms, meanings = append(terms, name), append(meanings, strings.TrimSpace(meaning))
		widest = max(widest, len(name))
	}
	for i, term := range terms {
		first := "  " + term + strings.Repeat(" ", widest-len(term)+2)
		out = append(out, wrapLines(meanings[i], first, strings.Repeat(" ", widest+4))...)
	}
	return out
}

// wrapLines breaks a text into lines. The first begins with first, the others with rest.
func wrapLines(text, first, rest string) (out []string) {
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		switch {
		case empty:
			line += word
		case len([]rune(line))+1+len([]rune(word)) > helpWidth:
			out = append(out, line)
			line = rest + word
		default:
			line += " " + word
		}
		empty = false
	}
	return append(out, line)
}
