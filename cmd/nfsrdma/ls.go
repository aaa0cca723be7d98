// nfsrdma ls: its flags.

package main

import (
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
		Long: `List directories, sorted by name, as ls(1) does. On a terminal names are in columns
and quoted for a shell; elsewhere there is one on a line, as it is. --zero ends
each with a zero byte, for names that hold newlines.

With -U nothing is kept in memory and output begins at once: columns of -l get
wider as it goes on, and a directory of more than a few thousand names has no total.`,
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

// lsFlagSet gives each option the letter that ls(1) has for it.
func lsFlagSet(cmd *cobra.Command, f *listing.Options) {
	fl := cmd.Flags()
	fl.Bool("help", false, "help for ls") // -h is taken
	fl.BoolVarP(&f.Long, "long", "l", false, "mode, links, owner, group, size and time too")
	fl.BoolVarP(&f.All, "all", "a", false, "names that begin with a dot too")
	fl.BoolVarP(&f.AlmostAll, "almost-all", "A", false, "the same without . and ..")
	fl.BoolVarP(&f.One, "single", "1", false, "one name on each line")
	fl.BoolVarP(&f.Columns, "columns", "C", false, "names in columns, also where the output is no terminal")
	fl.BoolVarP(&f.Directory, "directory", "d", false, "directories themselves, not what is in them")
	fl.BoolVarP(&f.Classify, "classify", "F", false, "a sign of its type after each name, one of */=@|")
	fl.BoolVarP(&f.Slash, "slash", "p", false, "a slash after the names of directories")
	fl.BoolVarP(&f.Human, "human-readable", "h", false, "sizes like 1.5K and 234M")
	fl.BoolVarP(&f.Inode, "inode", "i", false, "the number of each file")
	fl.BoolVarP(&f.Numeric, "numeric-uid-gid", "n", false, "like -l, with owners and groups as numbers")
	fl.BoolVarP(&f.Dereference, "dereference", "L", false, "of symbolic links, what they lead to")
	fl.BoolVarP(&f.Reverse, "reverse", "r", false, "in reverse order")
	fl.BoolVarP(&f.Recursive, "recursive", "R", false, "directories below too")
	fl.BoolVarP(&f.Size, "size-sort", "S", false, "sorted by size, largest first")
	fl.BoolVarP(&f.Time, "time-sort", "t", false, "sorted by time, newest first")
	fl.BoolVarP(&f.Atime, "atime", "u", false, "the time of the last access, with -l and -t")
	fl.BoolVarP(&f.Ctime, "ctime", "c", false, "the time of the last change of attributes, with -l and -t")
	fl.BoolVarP(&f.Unsorted, "unsorted", "U", false, "in the server's order, as it comes")
	fl.StringVar(&f.Quoting, "quoting-style", "", "how names are written: "+strings.Join(text.Styles, ", "))
	fl.BoolVarP(&f.Escape, "escape", "b", false, "the same as --quoting-style=escape")
	fl.BoolVarP(&f.Literal, "literal", "N", false, "the same as --quoting-style=literal")
	fl.BoolVarP(&f.QuoteName, "quote-name", "Q", false, "the same as --quoting-style=c")
	fl.BoolVarP(&f.Hide, "hide-control-chars", "q", false, "? in place of what is not printable")
	fl.BoolVarP(&f.Zero, "zero", "0", false, "end lines with a zero byte, not a newline")
	fl.BoolVar(&f.JSON, "json", false, "a JSON array with all attributes")
	_ = cmd.RegisterFlagCompletionFunc("quoting-style", cobra.FixedCompletions(text.Styles, cobra.ShellCompDirectiveNoFileComp))
}
