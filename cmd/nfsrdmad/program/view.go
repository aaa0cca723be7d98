// Common parts of the commands that show a running server: flags and formats.

package program

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/spf13/cobra"
)

// newView makes cmd request the server's answer to cmd's name, a T, and show the answer.
func newView[T any](k *Kind, cmd *cobra.Command, show func(io.Writer, *T) error) *cobra.Command {
	var socket string
	var asJSON bool
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var answer T
		if err := k.ask(cmd.Context(), socket, cmd.Name(), &answer); err != nil {
			return err
		}
		if asJSON {
			return writeJSON(cmd.OutOrStdout(), &answer)
		}
		return show(cmd.OutOrStdout(), &answer)
	}
	cmd.Flags().StringVar(&socket, "control", "", k.controlHelp())
	cmd.Flags().BoolVar(&asJSON, "json", false, jsonFlag)
	return cmd
}

const jsonFlag = "print JSON, with sizes in bytes and times in seconds"

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(text.JSONWriter(w))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// newTable returns a writer for aligned columns, and writes the header head. Cells end with a tab,
// rows with a newline.
func newTable(w io.Writer, head string) *tabwriter.Writer {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	return t
}

// cell formats a name chosen by a client as one table cell, without characters that control a
// terminal.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return text.Quote(text.Escape, s)
}

// formatAge formats a time in seconds with its two largest units.
func formatAge(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}
