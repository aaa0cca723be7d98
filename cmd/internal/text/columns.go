// Padding and columns, by display width.

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

// PadRight puts spaces after s until it is n columns wide on a terminal.
func PadRight(s string, n int) string {
	return s + strings.Repeat(" ", max(n-runewidth.StringWidth(s), 0))
}

// tabSize is the distance of tab stops in ls(1).
const tabSize = 8

// indent moves from one column of a line to another, with tabs where possible.
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

// leastColumn is ls(1)'s minimum column width, including the gap of 2.
const leastColumn = 3

// WriteColumns writes names down columns, like ls(1), in as many columns as fit. Lines are shorter
// than width unless there is only one column. Each line ends with end.
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

// columnWidths returns the widths of cols columns with lines names each, and their sum. All columns
// but the last have a gap after the longest name.
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
