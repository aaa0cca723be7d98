// nfsrdma ls: its flags.

package main

import (
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/listing"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/spf13/cobra"
)

func newLs(s *session.Session) *cobra.Command {
	var f listing.Options
	cmd := &cobra.Command{
		Use:   "ls [-l] [-a] PATH...",
		Short: "List directories",
		Long: `List directories, sorted by name, as ls(1) does. On a terminal, names stand in
columns and are quoted for a shell. Elsewhere each line has one name, unquoted.
--zero ends each name with a zero byte, for names that contain newlines.

With -U the output begins at once, and no list is kept in memory. The columns of
-l then grow as names arrive. Directories of more than a few thousand names have
no total.`,
		Example: `  nfsrdma ls nfsrdma://server/export
  nfsrdma ls -lt server:/export/dir
  nfsrdma ls -U server:/export/huge    # as it comes, not sorted
  nfsrdma ls --zero server:/export/dir | xargs -0 -n 1 echo
  nfsrdma ls --json server:/export/dir | jq '.[].name'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := listing.New(s, cmd.OutOrStdout(), f)
			if err != nil {
				return err
			}
			return l.Run(cmd.Context(), args)
		},
	}
	lsFlagSet(cmd, &f)
	return cmd
}

// lsFlagSet gives each option its letter in ls(1). The last of several exclusive options counts, as
// in ls(1).
func lsFlagSet(cmd *cobra.Command, f *listing.Options) {
	fl := cmd.Flags()
	either := func(name, letter, usage string, set func()) {
		fl.BoolFuncP(name, letter, usage, func(v string) error {
			on, err := strconv.ParseBool(v)
			if on {
				set()
			}
			return err
		})
	}
	fl.Bool("help", false, "help for ls") // -h has another meaning
	either("long", "l", "mode, links, owner, group, size and time too", func() { f.Long, f.One, f.Columns = true, false, false })
	either("all", "a", "names that begin with a dot too", func() { f.All, f.AlmostAll = true, false })
	either("almost-all", "A", "the same without . and ..", func() { f.All, f.AlmostAll = false, true })
	either("single", "1", "one name on each line", func() { f.One, f.Columns = !f.Long, false })
	either("columns", "C", "names in columns, also where the output is no terminal", func() { f.Long, f.One, f.Columns = false, false, true })
	fl.BoolVarP(&f.Directory, "directory", "d", false, "directories themselves, not what is in them")
	either("classify", "F", "a sign of its type after each name, one of */=@|", func() { f.Classify, f.Slash = true, false })
	either("slash", "p", "a slash after the names of directories", func() { f.Classify, f.Slash = false, true })
	fl.BoolVarP(&f.Human, "human-readable", "h", false, "sizes like 1.5K and 234M")
	fl.BoolVarP(&f.Inode, "inode", "i", false, "the number of each file")
	either("numeric-uid-gid", "n", "like -l, with owners and groups as numbers", func() {
		f.Numeric, f.Long, f.One, f.Columns = true, true, false, false
	})
	fl.BoolVarP(&f.Dereference, "dereference", "L", false, "of symbolic links, what they lead to")
	fl.BoolVarP(&f.Reverse, "reverse", "r", false, "in reverse order")
	fl.BoolVarP(&f.Recursive, "recursive", "R", false, "directories below too")
	either("size-sort", "S", "sorted by size, largest first", func() { f.Size, f.Time, f.Unsorted = true, false, false })
	either("time-sort", "t", "sorted by time, newest first", func() { f.Size, f.Time, f.Unsorted = false, true, false })
	either("atime", "u", "the time of the last access, with -l and -t", func() { f.Atime, f.Ctime = true, false })
	either("ctime", "c", "the time of the last change of attributes, with -l and -t", func() { f.Atime, f.Ctime = false, true })
	either("unsorted", "U", "in the server's order, as it comes", func() { f.Size, f.Time, f.Unsorted = false, false, true })
	fl.StringVar(&f.Quoting, "quoting-style", "", "how names are written: "+strings.Join(text.Styles, ", "))
	either("escape", "b", "the same as --quoting-style=escape", func() { f.Quoting = text.Escape })
	either("literal", "N", "the same as --quoting-style=literal", func() { f.Quoting = text.Literal })
	either("quote-name", "Q", "the same as --quoting-style=c", func() { f.Quoting = text.C })
	fl.BoolVarP(&f.Hide, "hide-control-chars", "q", false, "? in place of what is not printable")
	either("zero", "0", "end lines with a zero byte, one name on each, as it is", func() {
		f.Zero, f.Quoting, f.Hide, f.One, f.Columns = true, text.Literal, false, !f.Long, false
	})
	fl.BoolVar(&f.JSON, "json", false, "a JSON array with all attributes")
	_ = cmd.RegisterFlagCompletionFunc("quoting-style", cobra.FixedCompletions(text.Styles, cobra.ShellCompDirectiveNoFileComp))
}
