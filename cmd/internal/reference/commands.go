// The page of commands: usage, help, flags and examples, from the command lines themselves.

package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// perSentence limits the flags in a sentence of the page.
const perSentence = 30

func writeCommands(w *writer, _ *module, p Programs) error {
	roots := p.all()
	w.line("`--help` after any command prints the same.\n")
	for _, root := range roots {
		for _, cmd := range p.described(root) {
			w.line("- [`%s`](#%s): %s", cmd.CommandPath(), anchor(cmd.CommandPath()), firstLower(cmd.Short))
		}
	}
	for _, root := range roots {
		for _, cmd := range p.described(root) {
			writeCommand(w, cmd, p.counterpart(cmd))
		}
		if root == p.Volumes {
			w.line("\n## Other commands of %s\n\n%s are those of [`%s`](#%[3]s).", root.Name(), codes(p.shared()), p.Server.Name())
		}
	}
	return nil
}

// described lists the commands of a program that get a section. Commands of Volumes get one only if
// they differ from Server's.
func (p Programs) described(root *cobra.Command) (list []*cobra.Command) {
	for _, cmd := range visible(root) {
		if other := p.counterpart(cmd); other == nil || !same(cmd, other) {
			list = append(list, cmd)
		}
	}
	return list
}

// shared lists the commands that Volumes shares with Server.
func (p Programs) shared() (names []string) {
	for _, cmd := range visible(p.Volumes) {
		if other := p.counterpart(cmd); other != nil && same(cmd, other) {
			names = append(names, cmd.Name())
		}
	}
	return names
}

// counterpart returns Server's command for one of Volumes, or nil.
func (p Programs) counterpart(cmd *cobra.Command) *cobra.Command {
	if cmd.Root() != p.Volumes {
		return nil
	}
	if cmd == p.Volumes {
		return p.Server
	}
	for _, other := range p.Server.Commands() {
		if other.Name() == cmd.Name() {
			return other
		}
	}
	return nil
}

// same reports whether two commands differ at most in program and file names.
func same(cmd, other *cobra.Command) bool {
	return plain(cmd.Long) == plain(other.Long) && slices.Equal(flagNames(cmd.Flags()), flagNames(other.Flags()))
}

var plain = strings.NewReplacer("nfsrdmad-juicefs", "nfsrdmad", "nfsrdma-juicefs", "nfsrdma", "juicefs-exports", "exports").Replace

// anchor returns the link target of a heading.
func anchor(heading string) string {
	return strings.NewReplacer(" ", "-", ".", "", "--", "").Replace(heading)
}

// visible lists a command and all visible commands below it. The shells of completion count as one.
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

// writeCommand writes a command's section. It lists only those flags that counterpart, a command of
// another program, lacks.
func writeCommand(w *writer, cmd, counterpart *cobra.Command) {
	w.line("\n## %s\n\n%s.", cmd.CommandPath(), prose(strings.TrimSuffix(cmd.Short, ".")))
	use := cmd.UseLine()
	if len(cmd.Aliases) > 0 {
		use += "\naliases: " + strings.Join(cmd.Aliases, ", ")
	}
	w.block(use)
	if cmd.Long != "" && cmd.Name() != "completion" {
		w.block(cmd.Long)
	}
	own, others := cmd.NonInheritedFlags(), []string(nil)
	if counterpart != nil {
		own, others = without(own, counterpart.NonInheritedFlags())
	}
	writeFlags(w, own)
	if len(others) > 0 {
		begin := fmt.Sprintf("\nOther flags of [`%s`](#%s)", counterpart.CommandPath(), anchor(counterpart.CommandPath()))
		for some := range slices.Chunk(others, perSentence) {
			w.line("%s: %s.", begin, codes(some))
			begin = "And"
		}
	}
	if names := flagNames(cmd.InheritedFlags()); len(names) > 0 {
		w.line("\nFlags of [`%[1]s`](#%[1]s): %s.", cmd.Root().Name(), codes(names))
	}
	if cmd.Example != "" {
		w.line("\nExamples:")
		w.block(cmd.Example)
	}
}

// without splits flags into those that others lack and the names of the rest.
func without(flags, others *pflag.FlagSet) (own *pflag.FlagSet, rest []string) {
	own = pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		switch {
		case others.Lookup(f.Name) == nil:
			own.AddFlag(f)
		case listed(f):
			rest = append(rest, "--"+f.Name)
		}
	})
	return own, rest
}

// writeFlags writes a table of flags, if there are any except --help and --version.
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

// usage returns a flag in its written form, with its value's type.
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

// defaultOf returns a flag's default; "" for a zero value.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return ""
	}
	return code(f.DefValue)
}

// firstLower makes the first letter lower case, unless the text begins with capitals.
func firstLower(s string) string {
	if len(s) < 2 || s[1] >= 'A' && s[1] <= 'Z' {
		return prose(s)
	}
	return prose(strings.ToLower(s[:1]) + s[1:])
}

// find returns the command of a path such as "nfsrdma ls".
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
