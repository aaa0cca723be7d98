// Findings on a terminal.

package doctor

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Print writes one finding: its line and its advice.
func Print(w io.Writer, f Finding) {
	fmt.Fprintf(w, "%-4s  %-15s %s\n", f.Status, f.Check, oneLine(f.Text))
	if f.Advice != "" {
		fmt.Fprintf(w, "%21s → %s\n", "", oneLine(f.Advice))
	}
}

// PrintEnd writes the command lines and a summary.
func PrintEnd(w io.Writer, r Report) {
	if len(r.Mount) > 0 {
		fmt.Fprintln(w, "\nTo mount it:")
		for _, line := range r.Mount {
			fmt.Fprintf(w, "  %s\n", oneLine(line))
		}
	}
	counts := map[Status]int{}
	for _, f := range r.Findings {
		counts[f.Status]++
	}
	fmt.Fprintf(w, "\n%d OK, %d to look at, %d failed, %d not tried\n", counts[OK], counts[Warn], counts[Fail], counts[Skip])
}

// oneLine makes a server's text safe for a terminal.
func oneLine(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
