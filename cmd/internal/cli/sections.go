// The sections of a manual page, in the order of man-pages(7).

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// sections are the titles in order.
var sections = []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "OPTIONS INHERITED FROM PARENT COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES",
	"DIAGNOSTICS", "EXAMPLES", "SEE ALSO"}

// arrangeAll arranges the pages in dir, for cmd and all commands below it that have a page.
func arrangeAll(cmd *cobra.Command, dir, section string) error {
	if err := arrange(cmd, filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+"."+section)); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := arrangeAll(c, dir, section); err != nil {
			return err
		}
	}
	return nil
}

// arrange orders the sections of a command's page and extends SEE ALSO.
func arrange(cmd *cobra.Command, file string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const start = "\n.SH "
	parts := strings.Split(strings.ReplaceAll(string(page), start+"EXAMPLE\n", start+"EXAMPLES\n"), start)
	place := func(part string) int {
		title, _, _ := strings.Cut(part, "\n")
		return slices.Index(sections, strings.Trim(title, `"`))
	}
	body := parts[1:]
	slices.SortStableFunc(body, func(a, b string) int { return place(a) - place(b) })
	if names, _ := collect(seeAlso, cmd.CommandPath()); len(names) > 0 {
		also := ""
		for _, name := range names {
			title, section, _ := strings.Cut(name, "(")
			also += fmt.Sprintf(", \\fB%s\\fP(%s", title, section)
		}
		if last := len(body) - 1; place(body[last]) == len(sections)-1 {
			body[last] = strings.TrimRight(body[last], "\n") + also + "\n"
		} else {
			body = append(body, "SEE ALSO\n"+strings.TrimPrefix(also, ", ")+"\n")
		}
	}
	return os.WriteFile(file, []byte(strings.Join(append(parts[:1], body...), start)), 0o644)
}
