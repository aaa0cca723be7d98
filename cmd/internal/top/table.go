// Tables that fit a width by dropping columns, the least important first.

package top

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// A column is one column of a table.
type column[T any] struct {
	head string
	rank int // the columns with the highest rank are dropped first; rank 0 is always kept
	left bool
	cell func(*T) string
}

// maxCell limits the width of a cell.
const maxCell = 40

// rows formats items as a table with a header. width is the screen's; 0: unlimited.
func rows[T any](columns []column[T], items []T, width int) (lines []string) {
	cells := make([][]string, len(columns))
	widths := make([]int, len(columns))
	for i, c := range columns {
		cells[i] = append(cells[i], c.head)
		for j := range items {
			cells[i] = append(cells[i], runewidth.Truncate(c.cell(&items[j]), maxCell, "~"))
		}
		for _, s := range cells[i] {
			widths[i] = max(widths[i], runewidth.StringWidth(s))
		}
	}
	shown := fit(columns, widths, width)
	for row := range len(items) + 1 {
		var b strings.Builder
		for _, i := range shown {
			if b.Len() > 0 {
				b.WriteString("  ")
			}
			if columns[i].left {
				b.WriteString(text.PadRight(cells[i][row], widths[i]))
			} else {
				b.WriteString(text.PadLeft(cells[i][row], widths[i]))
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// fit returns the indexes of the columns to show, from left to right. It drops the column with the
// highest rank until the others fit or one is left; with width 0 it drops none.
func fit[T any](columns []column[T], widths []int, width int) (shown []int) {
	need := -2
	for i, w := range widths {
		shown = append(shown, i)
		need += w + 2
	}
	for width > 0 && need > width && len(shown) > 1 {
		last := slices.MaxFunc(shown, func(a, b int) int { return columns[a].rank - columns[b].rank })
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == last })
		need -= widths[last] + 2
	}
	return shown
}

// maxNameBytes limits the processed bytes of a name. Combining marks have no width, so the
// displayed width is no limit.
const maxNameBytes = 8 * maxCell

// safeName makes a server's string one cell without characters that control a terminal.
func safeName(s string) string {
	if s == "" {
		return "-"
	}
	return text.Quote(text.Escape, s[:min(len(s), maxNameBytes)])
}
