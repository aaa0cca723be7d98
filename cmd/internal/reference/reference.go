// Package reference writes the pages of docs/reference from the code: commands, options, metrics,
// exit statuses, JSON, log messages and limits.
package reference

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Programs are the documented command lines. Volumes is nfsrdmad-juicefs, which has most commands
// and flags of Server.
type Programs struct{ Client, Helper, Server, Volumes *cobra.Command }

func (p Programs) all() []*cobra.Command {
	return []*cobra.Command{p.Client, p.Helper, p.Server, p.Volumes}
}

// A page is a file of docs/reference.
type page struct {
	name, title string
	about       string // contents, for the index
	write       func(*writer, *module, Programs) error
}

var pages = []page{
	{"commands.md", "Commands", "every command with its flags", writeCommands},
	{"mount-options.md", "Mount options", "what `nfsrdma mount -o` and `/etc/fstab` accept", writeMountOptions},
	{"export-options.md", "Export options", "what an exports file accepts", writeExportOptions},
	{"metrics.md", "Metrics", "what `nfsrdmad serve --metrics-addr` has for Prometheus", writeMetrics},
	{"exit-status.md", "Exit status", "the exit status of each command", writeStatuses},
	{"files.md", "Files and environment", "files and variables that are used without being named", writeFiles},
	{"json.md", "JSON output", "the keys of each command's `--json`", writeJSON},
	{"log-messages.md", "Log messages", "the lines that servers and mounts log, with level and fields", writeLogMessages},
	{"limits.md", "Limits", "the largest sizes and counts, and the timeouts", writeLimits},
}

// Update is the command that writes the pages.
const Update = "go test ./cmd/nfsrdma -run TestReference -update"

// Pages returns the text of each page by its name. root is the module's source folder.
func Pages(root string, p Programs) (map[string]string, error) {
	m, err := load(root)
	if err != nil {
		return nil, err
	}
	for _, root := range p.all() {
		root.InitDefaultCompletionCmd()
	}
	all := map[string]string{"README.md": index()}
	for _, page := range pages {
		w := &writer{}
		w.head(page.title)
		if err := page.write(w, m, p); err != nil {
			return nil, fmt.Errorf("%s: %w", page.name, err)
		}
		all[page.name] = w.String()
	}
	return all, nil
}

// index returns the page that lists the others.
func index() string {
	w := &writer{}
	w.head("Reference")
	for _, page := range pages {
		w.line("- [%s](%s): %s", page.title, page.name, page.about)
	}
	return w.String()
}

// A writer collects Markdown.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// head writes a page's title.
func (w *writer) head(title string) {
	w.line("# %s\n\nThis page is generated from the code by `%s`.\n", title, Update)
}

// table starts a table with a header for each column.
func (w *writer) table(columns ...string) {
	w.line("")
	w.row(columns...)
	w.line("|%s", strings.Repeat("---|", len(columns)))
}

func (w *writer) row(cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.Join(strings.Fields(c), " "), "|", `\|`)
	}
	w.line("| %s |", strings.Join(cells, " | "))
}

// block writes lines verbatim.
func (w *writer) block(text string) { w.line("\n```text\n%s\n```", strings.Trim(text, "\n")) }

// code returns a code span; "" stays empty.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// codes returns code spans separated by commas.
func codes(list []string) string {
	spans := make([]string, len(list))
	for i, s := range list {
		spans[i] = code(s)
	}
	return strings.Join(spans, ", ")
}

// prose escapes a text for a table cell.
func prose(s string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`).Replace(s)
}
