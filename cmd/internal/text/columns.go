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

// tabSize is how far apart ls(1) takes tab stops to be.
const tabSize = 8

// indent moves from one place of a line to another, with tabs as far as they go.
func indent(out *bufio.Writer, from, to int) {
	for from < to {
		if to/tabSize > (from+1)/tabSize {
			out.WriteByte('\t')
			from += tabSize - from%tabSize
		} else {
			out.WriteByte(' ')
			from++
		}
	}
}

// leastColumn is the width that ls(1) gives a column at least, the gap of 2 included.
const leastColumn = 3

// WriteColumns writes names down columns, in as many columns as the width allows,
// as ls(1) does: a line is shorter than width unless there is one column only. end is after each line.
func WriteColumns(out *bufio.Writer, names []string, width int, end byte) {
	sizes := make([]int, len(names))
	for i, n := range names {
		sizes[i] = runewidth.StringWidth(n)
	}
	for cols := min(len(names), max(width/leastColumn, 1)); cols > 0; cols-- {
		lines := (len(names) + cols - 1) / cols
		widths, sum := columnWidths(sizes, cols, lines)
		if sum >= width && cols > 1 {
			continue
		}
		for row := range lines {
			for c, at, i := 0, 0, row; i < len(names); c, i = c+1, i+lines {
				out.WriteString(names[i])
				if i+lines < len(names) {
					indent(out, at+sizes[i], at+widths[c])
					at += widths[c]
				}
			}
			out.WriteByte(end)
		}
		return
	}
}

// columnWidths are the widths of cols columns of lines names each, and their sum. All but the
// last have a gap after their longest name.
func columnWidths(sizes []int, cols, lines int) (widths []int, sum int) {
	widths = make([]int, cols)
	for c := range widths {
		widths[c] = leastColumn
		for _, n := range sizes[min(c*lines, len(sizes)):min((c+1)*lines, len(sizes))] {
			if c < cols-1 {
				n += 2
			}
			widths[c] = max(widths[c], n)
		}
		sum += widths[c]
	}
	return widths, sum
}
