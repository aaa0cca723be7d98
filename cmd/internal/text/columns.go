// Padding and columns, by the width that a terminal gives each name.

package text

import (
	"bufio"
	"strings"

	"github.com/mattn/go-runewidth"
)

// PadLeft puts spaces before s until it is n columns wide on a terminal.
func PadLeft(s string, n int) string {
	return strings.Repeat(" ", max(n-runewidth.StringWidth(s), 0)) + s
}

// PadRight puts them after it.
func PadRight(s string, n int) string {
	return s + strings.Repeat(" ", max(n-runewidth.StringWidth(s), 0))
}

// WriteColumns writes names down columns, in as few lines as the width allows.
func WriteColumns(out *bufio.Writer, names []string, width int) {
	sizes := make([]int, len(names))
	for i, n := range names {
		sizes[i] = runewidth.StringWidth(n)
	}
	for lines := 1; lines <= len(names); lines++ {
		var cols []int
		sum := 0
		for i := 0; i < len(names) && sum <= width+2; i += lines {
			col := 0
			for _, n := range sizes[i:min(i+lines, len(sizes))] {
				col = max(col, n)
			}
			cols = append(cols, col+2)
			sum += col + 2
		}
		if sum-2 >= width && lines < len(names) || len(cols)*lines < len(names) {
			continue
		}
		for row := range lines {
			for c, i := 0, row; i < len(names); c, i = c+1, i+lines {
				out.WriteString(names[i])
				if i+lines < len(names) {
					out.WriteString(strings.Repeat(" ", cols[c]-sizes[i]))
				}
			}
			out.WriteByte('\n')
		}
		return
	}
}
