// nfsrdma ls: the flags, and the order of what is listed.

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// lsFlags are what ls is asked to show, in ls's own letters.
type lsFlags struct {
	long, all, almostAll, one, columns, directory, classify, slash bool
	human, inode, numeric, reverse, recursive, size, time          bool
	unsorted, dereference, zero, json, atime, ctime                bool
	quoting                                                        string
	escape, literal, quoteName, hide                               bool
}

func newLs(s *session) *cobra.Command {
	var f lsFlags
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
			l, err := newLsRun(s, cmd, f)
			if err != nil {
				return err
			}
			return l.run(cmd.Context(), args)
		},
	}
	lsFlagSet(cmd, &f)
	return cmd
}

func lsFlagSet(cmd *cobra.Command, f *lsFlags) {
	fl := cmd.Flags()
	fl.Bool("help", false, "help for ls") // -h is taken
	fl.BoolVarP(&f.long, "long", "l", false, "mode, links, owner, group, size and time too")
	fl.BoolVarP(&f.all, "all", "a", false, "names that begin with a dot too")
	fl.BoolVarP(&f.almostAll, "almost-all", "A", false, "the same without . and ..")
	fl.BoolVarP(&f.one, "single", "1", false, "one name on each line")
	fl.BoolVarP(&f.columns, "columns", "C", false, "names in columns, also where the output is no terminal")
	fl.BoolVarP(&f.directory, "directory", "d", false, "directories themselves, not what is in them")
	fl.BoolVarP(&f.classify, "classify", "F", false, "a sign of its type after each name, one of */=@|")
	fl.BoolVarP(&f.slash, "slash", "p", false, "a slash after the names of directories")
	fl.BoolVarP(&f.human, "human-readable", "h", false, "sizes like 1.5K and 234M")
	fl.BoolVarP(&f.inode, "inode", "i", false, "the number of each file")
	fl.BoolVarP(&f.numeric, "numeric-uid-gid", "n", false, "like -l, with owners and groups as numbers")
	fl.BoolVarP(&f.dereference, "dereference", "L", false, "of symbolic links, what they lead to")
	fl.BoolVarP(&f.reverse, "reverse", "r", false, "in reverse order")
	fl.BoolVarP(&f.recursive, "recursive", "R", false, "directories below too")
	fl.BoolVarP(&f.size, "size-sort", "S", false, "sorted by size, largest first")
	fl.BoolVarP(&f.time, "time-sort", "t", false, "sorted by time, newest first")
	fl.BoolVarP(&f.atime, "atime", "u", false, "the time of the last access, with -l and -t")
	fl.BoolVarP(&f.ctime, "ctime", "c", false, "the time of the last change of attributes, with -l and -t")
	fl.BoolVarP(&f.unsorted, "unsorted", "U", false, "in the server's order, as it comes")
	fl.StringVar(&f.quoting, "quoting-style", "", "how names are written: "+strings.Join(quoteStyles, ", "))
	fl.BoolVarP(&f.escape, "escape", "b", false, "the same as --quoting-style=escape")
	fl.BoolVarP(&f.literal, "literal", "N", false, "the same as --quoting-style=literal")
	fl.BoolVarP(&f.quoteName, "quote-name", "Q", false, "the same as --quoting-style=c")
	fl.BoolVarP(&f.hide, "hide-control-chars", "q", false, "? in place of what is not printable")
	fl.BoolVarP(&f.zero, "zero", "0", false, "end lines with a zero byte, not a newline")
	fl.BoolVar(&f.json, "json", false, "a JSON array with all attributes")
	_ = cmd.RegisterFlagCompletionFunc("quoting-style", cobra.FixedCompletions(quoteStyles, cobra.ShellCompDirectiveNoFileComp))
}

// An lsRun is one run of ls.
type lsRun struct {
	lsFlags
	s       *session
	rep     *cli.Reporter
	out     *bufio.Writer
	style   string // of quoting
	width   int    // of the terminal, for columns
	end     byte   // of each line
	align   bool   // unquoted names beside quoted ones are moved by a space
	printed bool   // something was
	status  int
	beside  []*lsRow // what counts for the widths of operands that are files: those that are directories
	owners  *ownerNames
	json    *lsJSON // nil unless asked for
}

func newLsRun(s *session, cmd *cobra.Command, f lsFlags) (*lsRun, error) {
	l := &lsRun{lsFlags: f, s: s, rep: cli.NewReporter(s.stderr, "ls"), out: bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10),
		end: '\n', owners: newOwnerNames(f.numeric), width: 80}
	l.long = f.long || f.numeric
	file, isFile := cmd.OutOrStdout().(*os.File)
	tty := isFile && term.IsTerminal(int(file.Fd()))
	if tty {
		if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
			l.width = w
		}
	}
	l.style = quoteLiteral
	switch {
	case f.quoting != "":
		l.style = f.quoting
	case f.escape:
		l.style = quoteEscape
	case f.quoteName:
		l.style = quoteC
	case tty && !f.literal && !f.zero:
		l.style = quoteShellEscape
	}
	if !slices.Contains(quoteStyles, l.style) {
		return nil, fmt.Errorf("ls: --quoting-style %q is none of %s", l.style, strings.Join(quoteStyles, ", "))
	}
	l.hide = f.hide || tty && l.style == quoteLiteral
	l.align = tty && (l.style == quoteShell || l.style == quoteShellEscape)
	if f.zero {
		l.end, l.style, l.hide, l.align = 0, quoteLiteral, false, false
	}
	l.columns = (f.columns || tty && !f.unsorted) && !f.one && !f.zero && !l.long && !f.json
	l.time = f.time || (f.ctime || f.atime) && !l.long && !f.size
	if f.json {
		l.json = &lsJSON{out: l.out}
	}
	return l, nil
}

// run lists the operands: files first, then each directory.
func (l *lsRun) run(ctx context.Context, args []string) error {
	var files []*lsRow
	var dirs []lsDir
	for _, arg := range args {
		o, err := l.s.operand(ctx, arg)
		var n nfsclient.Node
		if err == nil {
			n, err = l.node(ctx, o)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			l.fail(2, failure("cannot access", arg, err))
		case n.Attr.Type == nfs3.TypeDir && !l.directory:
			row := &lsRow{name: arg, attr: &n.Attr}
			dirs = append(dirs, lsDir{fsys: o.fsys, path: o.path, shown: arg, node: n, row: row, top: true})
			l.beside = append(l.beside, row)
		default:
			files = append(files, &lsRow{name: arg, attr: &n.Attr, more: &lsMore{fh: n.FH, of: &o}})
		}
	}
	l.sort(files)
	if !l.unsorted {
		debug.SetGCPercent(sortedGC)
		slices.SortStableFunc(dirs, func(a, b lsDir) int { return l.order(a.row, b.row) })
	}
	if err := l.rows(ctx, lsDir{}, files); err != nil {
		return err
	}
	l.printed, l.beside = len(files) > 0, nil
	for len(dirs) > 0 {
		d := dirs[0]
		below, err := l.dir(ctx, d, len(args) > 1 || l.recursive)
		if err != nil {
			return err
		}
		dirs = append(below, dirs[1:]...)
	}
	if l.json != nil {
		l.json.finish()
	}
	if err := l.out.Flush(); err != nil {
		return fmt.Errorf("write error: %s", cli.Reason(err))
	}
	if l.status != 0 {
		return cli.ExitError(l.status)
	}
	return nil
}

// sortedGC keeps garbage small beside what a sorted listing has to hold.
const sortedGC = 40

// node is what an operand is taken for: a symbolic link to a directory is that
// directory, unless the link itself would be shown in some way of its own.
func (l *lsRun) node(ctx context.Context, o operand) (nfsclient.Node, error) {
	if l.dereference {
		return o.fsys.Walk(ctx, o.path, true)
	}
	if !l.long && !l.directory && !l.classify {
		// A link that leads nowhere is shown; one that leads round in circles is an error.
		n, err := o.fsys.Walk(ctx, o.path, true)
		if err == nil && n.Attr.Type == nfs3.TypeDir || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
	}
	return o.fsys.Walk(ctx, o.path, false)
}

// fail reports an error; 2 is for operands, 1 for what is below them.
func (l *lsRun) fail(status int, err error) {
	_ = l.out.Flush() // so that lines stand in the order in which they came about
	l.status = max(l.status, status)
	l.rep.Report(err)
}

// order compares two rows.
func (l *lsRun) order(a, b *lsRow) int {
	c := 0
	switch {
	case l.size && a.attr != nil && b.attr != nil:
		c = compareUint(b.attr.Size, a.attr.Size)
	case l.time && a.attr != nil && b.attr != nil:
		x, y := l.timeOf(a.attr), l.timeOf(b.attr)
		if c = compareUint(uint64(y.Sec), uint64(x.Sec)); c == 0 {
			c = compareUint(uint64(y.Nsec), uint64(x.Nsec))
		}
	}
	if c == 0 {
		c = strings.Compare(a.name, b.name)
	}
	if l.reverse {
		return -c
	}
	return c
}

func (l *lsRun) sort(rows []*lsRow) {
	if !l.unsorted {
		slices.SortStableFunc(rows, l.order)
	}
}

func compareUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// timeOf is the time that is shown and sorted by.
func (l *lsRun) timeOf(a *nfs3.Fattr) nfs3.Time {
	switch {
	case l.atime:
		return a.Atime
	case l.ctime:
		return a.Ctime
	}
	return a.Mtime
}

// needsAttr reports whether names alone are not enough.
func (l *lsRun) needsAttr() bool {
	return l.long || l.classify || l.slash || l.size || l.time || l.recursive || l.dereference || l.json != nil
}

// halfYear is how long ls shows the time of day of a file.
const halfYear = 31556952 * time.Second / 2
