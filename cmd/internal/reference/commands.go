// The page of commands: usage, help, flags and examples, from the command lines themselves.

package reference

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func writeCommands(w *writer, _ *module, p Programs) error {
	roots := p.all()
	w.line("`--help` after any command prints the same.\n")
	for _, root := range roots {
		for _, cmd := range visible(root) {
			w.line("- [`%s`](#%s): %s", cmd.CommandPath(), anchor(cmd.CommandPath()), firstLower(cmd.Short))
		}
	}
	for _, root := range roots {
		for _, cmd := range visible(root) {
			writeCommand(w, cmd)
		}
	}
	return nil
}

// anchor is the place of a heading.
func anchor(heading string) string {
	return strings.NewReplacer(" ", "-", ".", "", "--", "").Replace(heading)
}

// visible lists a command and all below it that help shows; the shells of completion are one.
func visible(cmd *cobra.Command) (list []*cobra.Command) {
	list = append(list, cmd)
	for _, c := range cmd.Commands() {
		switch {
		case c.Hidden || c.Name() == "help":
		case c.Name() == "completion":
			list = append(list, c)
		default:
			list = append(list, visible(c)...)
		}
	}
	return list
}

func writeCommand(w *writer, cmd *cobra.Command) {
	w.line("\n## %s\n\n%s.", cmd.CommandPath(), prose(strings.TrimSuffix(cmd.Short, ".")))
	use := cmd.UseLine()
	if len(cmd.Aliases) > 0 {
		use += "\naliases: " + strings.Join(cmd.Aliases, ", ")
	}
	w.block(use)
	if cmd.Long != "" && cmd.Name() != "completion" {
		w.block(cmd.Long)
	}
	writeFlags(w, cmd.NonInheritedFlags())
	if names := flagNames(cmd.InheritedFlags()); len(names) > 0 {
		w.line("\nFlags of [`%[1]s`](#%[1]s): %s.", cmd.Root().Name(), codes(names))
	}
	if cmd.Example != "" {
		w.line("\nExamples:")
		w.block(cmd.Example)
	}
}

// writeFlags writes a table of flags, if there are any beside --help and --version.
func writeFlags(w *writer, flags *pflag.FlagSet) {
	if len(flagNames(flags)) == 0 {
		return
	}
	w.table("Flag", "Default", "Meaning")
	flags.VisitAll(func(f *pflag.Flag) {
		if listed(f) {
			w.row(code(usage(f)), defaultOf(f), prose(f.Usage))
		}
	})
}

func listed(f *pflag.Flag) bool {
	return !f.Hidden && f.Deprecated == "" && f.Name != "help" && f.Name != "version"
}

func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if listed(f) {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}

// usage is a flag as it is written, with the type of its value.
func usage(f *pflag.Flag) string {
	s := "--" + f.Name
	if f.Shorthand != "" && f.ShorthandDeprecated == "" {
		s = "-" + f.Shorthand + ", " + s
	}
	value, _ := pflag.UnquoteUsage(f)
	if value != "" {
		s += " " + value
	}
	return s
}

// defaultOf is the value that a flag has if it is not given; "" for the zero of its type.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return ""
	}
	return code(f.DefValue)
}

// firstLower begins a text in lower case, unless it begins with a name in capitals.
func firstLower(s string) string {
	if len(s) < 2 || s[1] >= 'A' && s[1] <= 'Z' {
		return prose(s)
	}
	return prose(strings.ToLower(s[:1]) + s[1:])
}

// find is the command of a path, such as "nfsrdma ls".
func (p Programs) find(path string) (*cobra.Command, error) {
	for _, root := range p.all() {
		for _, cmd := range visible(root) {
			if cmd.CommandPath() == path {
				return cmd, nil
			}
		}
	}
	return nil, fmt.Errorf("there is no command %q", path)
}
