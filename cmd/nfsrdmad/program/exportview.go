// nfsrdmad exports: the exports in force and their clients.

package program

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// exportsWait limits the wait for file systems.
const exportsWait = 2 * time.Second

// An exportsReport is the answer to exports, in the order in which they are served.
type exportsReport struct {
	File    string         `json:"file"`    // the exports file; "": none
	Exports []exportReport `json:"exports"` // in the order in which they are served
}

// An exportReport is an export with its clients.
type exportReport struct {
	Path string `json:"path"` // as clients mount it
	ID   uint32 `json:"id"`   // in file handles
	// open, opening, failed, or silent: its file system does not answer
	State       string       `json:"state"`
	Error       string       `json:"error,omitempty"` // why it is not open
	CommandLine bool         `json:"command_line"`    // the exports file says nothing of it
	Options     []string     `json:"options"`         // of all clients
	Clients     []ruleReport `json:"clients"`         // rules, in the order of the file
}

// A ruleReport is what clients may do.
type ruleReport struct {
	Client  string `json:"client"`  // a host, a network, or * for all
	Options string `json:"options"` // as in the exports file
}

func newExports(k *Kind) *cobra.Command {
	return newView(k, &cobra.Command{
		Use:   "exports",
		Short: "Show what the running server exports, and to whom",
		Long: `Show the present exports of the server on this machine, in the grammar of an exports
file, with all options. A comment has the number of the export in file handles, and
the state of its file system. To check a file before a reload, run nfsrdmad check.
For the grammar, see nfsrdmad help exports-file.`,
		Example: `  nfsrdmad exports
  nfsrdmad exports --json | jq '.exports[] | select(.state != "open")'`,
	}, showExports)
}

// exports returns the report on all exports.
func (r *running) exports() *exportsReport {
	report := &exportsReport{File: r.set.file, Exports: []exportReport{}}
	for _, e := range r.service.Exports(exportsWait) {
		row := exportReport{Path: e.Name, ID: e.ID, State: "open", CommandLine: !r.set.fromFile(e.Name), Options: wholeOptions(&e.Whole), Clients: []ruleReport{}}
		if row.CommandLine {
			row.Options = r.o.fixedWords(e.Name)
		}
		switch {
		case e.Err != nil:
			row.State, row.Error = "failed", e.Err.Error()
		case !e.Open:
			row.State = "opening"
		case !e.Answers:
			row.State = "silent"
		}
		for i := range e.Rules {
			row.Clients = append(row.Clients, ruleReport{e.Rules[i].Spec, e.Rules[i].Options.String()})
		}
		report.Exports = append(report.Exports, row)
	}
	return report
}

// fixedWords returns the options that the command line gives all its directories.
func (o *options) fixedWords(name string) []string {
	words := []string{}
	if o.crossmnt && name != o.memory {
		words = append(words, "crossmnt")
	}
	if o.subtreeCheck && name != o.memory {
		words = append(words, "subtree_check")
	}
	return words
}

var stateWords = map[string]string{"open": "its file system answers", "opening": "its file system does not answer yet", "failed": "cannot be opened",
	"silent": "its file system does not answer"}

// showExports prints a report, which can be used as an exports file.
func showExports(w io.Writer, r *exportsReport) error {
	for i := range r.Exports {
		e := &r.Exports[i]
		about := fmt.Sprintf("# id %08x, %s", e.ID, stateWords[e.State])
		if e.Error != "" {
			about += ": " + strings.ReplaceAll(e.Error, "\n", "; ")
		}
		if e.CommandLine {
			about += "; from the command line"
		}
		fmt.Fprintln(w, about)
		fmt.Fprint(w, quoteExport(e.Path))
		for _, c := range e.Clients {
			fmt.Fprintf(w, " %s(%s)", c.Client, strings.Join(append([]string{c.Options}, e.Options...), ","))
		}
		fmt.Fprintln(w)
	}
	return nil
}

// quoteExport quotes a path for an exports file: special bytes become octal numbers.
func quoteExport(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`"\#`, c) >= 0 {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
