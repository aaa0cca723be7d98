// Help texts as Markdown: what stands in two columns becomes a list of definitions, other indented lines stay as they are.

package cli

import "strings"

// definitions rewrites a help text. In it a line that begins with two blanks is a term and, after two blanks or more, what it
// means; lines that are indented further go on with that.
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

// list is indented lines as definitions, or as an example where they have no two columns.
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

// plainText keeps Markdown from finding anything in words.
func plainText(line string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, "`", "\\`", `[`, `\[`, `]`, `\]`, `<`, `\<`, `>`, `\>`, `#`, `\#`, `+`, `\+`).Replace(line)
}
