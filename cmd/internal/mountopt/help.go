// The options as text: for help, manual pages, and errors about mistyped names.

package mountopt

import (
	"fmt"
	"strings"
)

// names lists the options that have an effect, in the order of the help text.
func names() (list []string) {
	for _, x := range options {
		if x.kind == implemented {
			list = append(list, x.name)
		}
	}
	return list
}

// Completions lists the shell completions after -o, each with its help after a tab.
func Completions() (list []string) {
	for _, x := range options {
		if x.kind != implemented {
			continue
		}
		name := x.name
		if x.arg != "" {
			name += "="
		}
		list = append(list, name+"\t"+x.help)
	}
	return list
}

// Columns of the help text: option names, meanings, and the end of the line.
const (
	helpIndent = 4
	helpColumn = 26
	helpWidth  = 80
)

// A Treatment is the handling of an option.
type Treatment = kind

// The treatments.
const (
	Works   = implemented // has the effect that its help describes
	Same    = same        // an alias of another option, or the default
	Ignored = ignored     // without effect; the help says why
	Refused = refused     // an error
)

// A Row is one line of the option table. Options with the same help share a line.
type Row struct {
	Treatment Treatment
	Usage     []string // each in its written form
	Help      string
}

// Rows lists all options, in the order of the help text.
func Rows() (rows []Row) {
	for i, x := range options {
		if x.kind == renamed {
			continue
		}
		if last := len(rows) - 1; i > 0 && x.kind != implemented && x.kind == options[i-1].kind && x.help == options[i-1].help {
			rows[last].Usage = append(rows[last].Usage, x.usage())
			continue
		}
		rows = append(rows, Row{x.kind, []string{x.usage()}, x.help})
	}
	return append(rows, Row{ignored, []string{"x-…", "X-…"}, "accepted: for others that read fstab(5)"})
}

// Help describes all options, one per line, indented so that manual pages keep the lines.
func Help() string {
	var b strings.Builder
	for _, r := range Rows() {
		appendHelp(&b, r.Usage, r.Treatment, r.Help)
	}
	return b.String()
}

// usage returns the option in its written form.
func (x *option) usage() string {
	switch {
	case x.arg == "":
		return x.name
	case strings.HasPrefix(x.arg, "["):
		return x.name + "[=" + x.arg[1:]
	}
	return x.name + "=" + x.arg
}

// appendHelp writes option names and their help.
func appendHelp(b *strings.Builder, names []string, k kind, help string) {
	line := ""
	for _, name := range names {
		if helpIndent+len(line)+1+len(name) > helpWidth {
			fmt.Fprintf(b, "    %s\n", line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + name)
	}
	line = "    " + line
	if len([]rune(line)) >= helpColumn {
		fmt.Fprintln(b, line)
		line = ""
	}
	if k == refused {
		help = "refused: " + help
	}
	line += strings.Repeat(" ", helpColumn-1-len([]rune(line)))
	for word := range strings.FieldsSeq(help) {
		if len([]rune(line))+1+len([]rune(word)) > helpWidth {
			fmt.Fprintln(b, line)
			line = strings.Repeat(" ", helpColumn-1)
		}
		line += " " + word
	}
	fmt.Fprintln(b, line)
}
