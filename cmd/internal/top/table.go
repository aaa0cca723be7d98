// Tables that fit a width: columns that there is no room for are left out, the least important first.

package top

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// A column is one of a table.
type column[T any] struct {
	head string
	rank int // those with the highest are left out first; that of rank 0 never is
	left bool
	cell func(*T) string
}

// most is the widest that a cell gets.
const most = 40

// rows writes a table of items below a head. width is that of the screen; 0: any.
func rows[T any](columns []column[T], items []T, width int) (lines []string) {
	cells := make([][]string, len(columns))
	widths := make([]int, len(columns))
	for i, c := range columns {
		cells[i] = append(cells[i], c.head)
		for j := range items {
			cells[i] = append(cells[i], runewidth.Truncate(c.cell(&items[j]), most, "~"))
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

// fit returns the columns that there is room for, in their order.
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

// mostBytes is how much of a name is looked at: marks that stand above a character have no width, so that of what is shown is no bound.
const mostBytes = 8 * most

// name makes what a server says one cell: nothing in it acts on a terminal.
func name(s string) string {
	if s == "" {
		return "-"
	}
	return text.Quote(text.Escape, s[:min(len(s), mostBytes)])
}
