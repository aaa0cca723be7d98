// Help texts as Markdown: two-column text becomes a definition list, other indented lines stay
// unchanged.

package cli

import "strings"

// definitions rewrites a help text. A line that begins with two blanks is a term, followed by two
// or more blanks and its meaning. Lines with a larger indent continue the meaning.
func definitions(help string) string {
	var out, block []string
	flush := func() {
		if block != nil {
			out = append(append(append(out, ""), list(block)...), "")
		}
		block = nil
	}
	for line := range strings.SplitSeq(help, "\n") {
		if strings.HasPrefix(line, "  ") {
			block = append(block, line)
			continue
		}
		flush()
		out = append(out, plainText(line))
	}
	flush()
	return strings.Join(out, "\n")
}

// list returns indented lines as definitions, or as an example if they lack two columns.
func list(block []string) (out []string) {
	for _, line := range block {
		if rest, term := strings.CutPrefix(line, "  "); term && !strings.HasPrefix(rest, " ") {
			name, meaning, ok := strings.Cut(rest, "  ")
			if !ok {
				return example(block)
			}
			out = append(out, "", plainText(name), ": "+plainText(strings.TrimSpace(meaning)))
			continue
		}
		if out == nil {
			return example(block)
		}
		out[len(out)-1] += " " + plainText(strings.TrimSpace(line))
	}
	return append(out, "")
}

func example(block []string) []string {
	return append(append([]string{"```"}, block...), "```")
}

// plainText escapes Markdown's special characters.
func plainText(line string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, "`", "\\`", `[`, `\[`, `]`, `\]`, `<`, `\<`, `>`, `\>`, `#`, `\#`, `+`, `\+`).Replace(line)
}
