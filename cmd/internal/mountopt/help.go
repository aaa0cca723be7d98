// The options as text: for help, for the manual pages, and for who mistypes one.

package mountopt

import (
	"fmt"
	"strings"
)

// names lists the options that have a meaning here, in the order of the help text.
func names() (list []string) {
	for _, x := range options {
		if x.kind == done {
			list = append(list, x.name)
		}
	}
	return list
}

// Completions lists what the shell offers after -o, each with its help after a tab.
func Completions() (list []string) {
	for _, x := range options {
		if x.kind != done {
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

// The columns of the help text: of names, of what they do, and of the end of the line.
const (
	helpIndent = 4
	helpColumn = 26
	helpWidth  = 80
)

// A Treatment is what becomes of an option.
type Treatment = kind

// The treatments.
const (
	Works   = done    // as its help says
	Same    = same    // as another option, or as the default
	Ignored = ignored // without effect, for the reason in its help
	Refused = refused // with an error
)

// A Row is one line of the table of options: options that share their help stand together.
type Row struct {
	Treatment Treatment
	Usage     []string // each as it is written
	Help      string
}

// Rows lists all options, in the order of the help text.
func Rows() (rows []Row) {
	for i, x := range options {
		if x.kind == renamed {
			continue
		}
		if last := len(rows) - 1; i > 0 && x.kind != done && x.kind == options[i-1].kind && x.help == options[i-1].help {
			rows[last].Usage = append(rows[last].Usage, x.usage())
			continue
		}
		rows = append(rows, Row{x.kind, []string{x.usage()}, x.help})
	}
	return append(rows, Row{ignored, []string{"x-…", "X-…"}, "accepted: for others that read fstab(5)"})
}

// Help describes all options, one a line; they are indented so that manual pages keep the lines.
func Help() string {
	var b strings.Builder
	for _, r := range Rows() {
		appendHelp(&b, r.Usage, r.Treatment, r.Help)
	}
	return b.String()
}

// usage is the option as it is written.
func (x *option) usage() string {
	switch {
	case x.arg == "":
		return x.name
	case strings.HasPrefix(x.arg, "["):
		return x.name + "[=" + x.arg[1:]
	}
	return x.name + "=" + x.arg
}

// appendHelp writes the names of options, and their help.
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
