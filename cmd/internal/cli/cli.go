// Common parts of the programs: their version, and one-line errors with a remedy.

// Package cli gives all commands of this module the same behavior.
package cli

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/similar"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Protocols is a program's annotation with the protocol lines of --version.
const Protocols = "protocols"

// Prepare is called once root has all its commands. helpers are the program's other names, and file
// formats (Section); each also gets a manual page.
func Prepare(root *cobra.Command, helpers ...*cobra.Command) {
	SetVersion(root)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SuggestionsMinimumDistance = 1 // most names have two letters
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%s: see %s --help", flagError(cmd, err), cmd.CommandPath())
	})
	root.AddCommand(newMan(root, helpers))
	for _, cmd := range append(helpers, root) {
		wrapHelp(cmd)
	}
	for _, cmd := range root.Commands() {
		cmd.DisableFlagsInUseLine = true
	}
	countArgs(root)
}

// countArgs makes all commands below cmd report their usage if the number of arguments is wrong.
func countArgs(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Args != nil {
			sub.Args = counted(sub.Args)
		}
		countArgs(sub)
	}
}

// SetVersion adds --version to a program. Prepare calls SetVersion for its root.
func SetVersion(root *cobra.Command) {
	root.Version = version()
	if root.Flags().Lookup("version") == nil { // cobra's flag has the letter v, which means verbose
		root.Flags().Bool("version", false, "print the version and the protocols")
	}
	root.SetVersionTemplate("{{.Name}} version {{.Version}}\n" + origin(root))
}

// origin returns the --version lines after the version: source, toolchain, and root's protocols.
func origin(root *cobra.Command) string {
	s := fmt.Sprintf("built with %s for %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if b, ok := debug.ReadBuildInfo(); ok {
		s = commit(b.Settings) + s
	}
	if list := root.Annotations[Protocols]; list != "" {
		s += list + "\n"
	}
	return s
}

// commit returns the line about the source of a binary, or "" if the build did not record it.
func commit(settings []debug.BuildSetting) string {
	got := map[string]string{}
	for _, s := range settings {
		got[s.Key] = s.Value
	}
	if got["vcs.revision"] == "" {
		return ""
	}
	s := "commit " + got["vcs.revision"] + " of " + got["vcs.time"]
	if got["vcs.modified"] == "true" {
		s += ", and changes that are not committed"
	}
	return s + "\n"
}

// version returns the main module's version.
func version() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "(devel)"
}

// Build returns the binary's version and source revision; revision is "" if the build did not
// record it.
func Build() (ver, revision string) {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return version(), revision
}

// counted adds the usage to errors about the number of arguments.
func counted(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		what := "too many arguments"
		for n := range 3 {
			if more := append(args, "x", "x", "x")[:len(args)+1+n]; check(cmd, more) == nil {
				what = "an argument is missing"
			}
		}
		return fmt.Errorf("%s: usage is %s; see %s --help", what, cmd.UseLine(), cmd.CommandPath())
	}
}

// flagError rewrites an error about cmd's flags: it says what to write, and drops the words of the
// package that parses values.
func flagError(cmd *cobra.Command, err error) string {
	s := err.Error()
	if name, ok := strings.CutPrefix(s, "unknown flag: --"); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if word := similar.Word(name, known); word != "" {
			return s + " (did you mean --" + word + "?)"
		}
		return s
	}
	begin, reason, _ := strings.Cut(s, " flag: ")
	begin += " flag: "
	switch {
	case strings.HasPrefix(reason, "time: missing unit"):
		return begin + "write the unit too, such as 5s"
	case strings.HasPrefix(reason, "time: "):
		return begin + "must be a time such as 5s or 10m"
	case strings.HasPrefix(reason, "strconv.ParseBool: "):
		return begin + "must be true or false"
	case strings.HasPrefix(reason, "strconv.") && strings.HasSuffix(reason, "invalid syntax"):
		return begin + "must be a number"
	case strings.HasPrefix(reason, "strconv."):
		return begin + reason[strings.LastIndex(reason, ": ")+2:]
	}
	return s
}

// OneLine writes an error of root in one line.
func OneLine(root *cobra.Command, err error) string {
	s := err.Error()
	if rest, ok := strings.CutPrefix(s, "unknown command "); ok && errors.Unwrap(err) == nil {
		return unknownCommand(root, rest)
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// unknownCommand rewrites cobra's paragraph about an unknown command.
func unknownCommand(root *cobra.Command, rest string) string {
	name, _, _ := strings.Cut(rest, " for ")
	_, similar, ok := strings.Cut(rest, "Did you mean this?")
	if ok {
		return fmt.Sprintf("there is no command %s: did you mean %s?", name, strings.Join(strings.Fields(similar), " or "))
	}
	return fmt.Sprintf("there is no command %s: see %s --help", name, root.CommandPath())
}
