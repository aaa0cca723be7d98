// One ls run: its options, its operands, and their order.

// Package listing shows files of servers as ls(1) and stat(1) show local ones.
package listing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/term"
)

// Options are ls(1)'s options, with the same letters. At most one in each group is set: Long, One
// and Columns; Size, Time and Unsorted; All and AlmostAll; Atime and Ctime; Classify and Slash.
type Options struct {
	Numeric, Human, Inode         bool   // -n, -h, -i: columns
	All, AlmostAll, Directory     bool   // -a, -A, -d: selection
	Recursive, Dereference        bool   // -R, -L: descend, follow links
	Size, Time, Unsorted, Reverse bool   // -S, -t, -U, -r: order; by name if none is set
	Atime, Ctime                  bool   // -u, -c: the time shown and sorted by; default: mtime
	Long, One, Columns            bool   // -l, -1, -C: format; default: by the kind of output
	Zero, JSON                    bool   // -0: lines end with a zero byte; --json
	Classify, Slash               bool   // -F, -p: type suffixes
	Hide                          bool   // -q
	Quoting                       string // --quoting-style, -b, -N, -Q; "": by the kind of output
}

// A Run is one ls run.
type Run struct {
	Options
	s       *session.Session
	rep     *cli.Reporter
	out     *bufio.Writer
	style   string // quoting style
	width   int    // the terminal's width, for columns
	end     byte   // each line's last byte
	align   bool   // unquoted names next to quoted ones are indented by a space
	printed bool   // there was output
	status  int
	beside  []*row // directories among the operands: the files' columns get the same width
	owners  *text.Owners
	json    *text.JSONArray // nil without --json
}

// New prepares a run that writes to out. As in ls(1), the default format depends on whether out is
// a terminal.
func New(s *session.Session, out io.Writer, f Options) (*Run, error) {
	l := &Run{Options: f, s: s, rep: s.Reporter("ls"), out: bufio.NewWriterSize(out, 64<<10),
		end: '\n', owners: text.NewOwners(f.Numeric), width: 80}
	file := cli.Terminal(out)
	tty := file != nil
	if tty {
		if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
			l.width = w
		}
	}
	l.style = text.Literal
	switch {
	case f.Quoting != "":
		l.style = f.Quoting
	case tty:
		l.style = text.ShellEscape
	}
	if !slices.Contains(text.Styles, l.style) {
		return nil, fmt.Errorf("ls: --quoting-style %q must be one of %s", l.style, strings.Join(text.Styles, ", "))
	}
	if f.Zero {
		l.end = 0
	}
	l.Hide = f.Hide || tty && l.style == text.Literal && !f.Zero
	l.Columns = (f.Columns || tty && !f.Unsorted) && !f.One && !f.Long && !f.JSON
	l.align = (l.Long || l.Columns) && (l.style == text.Shell || l.style == text.ShellEscape)
	l.Time = f.Time || (f.Ctime || f.Atime) && !l.Long && !f.Size
	if f.JSON {
		l.json = text.NewJSONArray(l.out)
	}
	return l, nil
}

// Run lists the operands: files first, then each directory.
func (l *Run) Run(ctx context.Context, args []string) error {
	var files []*row
	var dirs []dir
	for _, arg := range args {
		o, err := l.s.Operand(ctx, arg)
		var n nfsclient.Node
		if err == nil {
			n, err = l.node(ctx, o)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			l.fail(2, session.Failure("cannot access", arg, err))
		case n.Attr.Type == nfs3.TypeDir && !l.Directory:
			row := &row{name: arg, attr: &n.Attr}
			dirs = append(dirs, dir{fsys: o.FS, path: o.Path, shown: arg, node: n, row: row, top: true})
			l.beside = append(l.beside, row)
		default:
			files = append(files, &row{name: arg, attr: &n.Attr, more: &more{fh: n.FH, of: &o}})
		}
	}
	l.sort(files)
	if !l.Unsorted {
		debug.SetGCPercent(sortedGC)
		slices.SortStableFunc(dirs, func(a, b dir) int { return l.order(a.row, b.row) })
	}
	if err := l.rows(ctx, dir{}, files); err != nil {
		return err
	}
	l.printed, l.beside = len(files) > 0, nil
	for len(dirs) > 0 {
		d := dirs[0]
		below, err := l.dir(ctx, d, len(args) > 1 || l.Recursive)
		if err != nil {
			return err
		}
		dirs = append(below, dirs[1:]...)
	}
	if l.json != nil {
		l.json.End()
	}
	if l.out.Flush() != nil {
		l.status = 2 // the program reports the error
	}
	if l.status != 0 {
		return cli.ExitError(l.status)
	}
	return nil
}

// sortedGC keeps garbage small relative to a sorted listing's rows.
const sortedGC = 40

// node returns an operand's node. A symbolic link to a directory stands for the directory, unless
// an option shows the link itself.
func (l *Run) node(ctx context.Context, o session.Operand) (nfsclient.Node, error) {
	if l.Dereference {
		return o.FS.Walk(ctx, o.Path, true)
	}
	if !l.Long && !l.Directory && !l.Classify {
		// A dangling link is listed; a link loop is an error.
		n, err := o.FS.Walk(ctx, o.Path, true)
		if err == nil && n.Attr.Type == nfs3.TypeDir || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
	}
	return o.FS.Walk(ctx, o.Path, false)
}

// fail reports an error. status is 2 for operands and 1 for entries below them.
func (l *Run) fail(status int, err error) {
	_ = l.out.Flush() // keeps the lines and errors in order
	l.status = max(l.status, status)
	l.rep.Report(err)
}

// order compares two rows.
func (l *Run) order(a, b *row) int {
	c := 0
	switch {
	case l.Size && a.attr != nil && b.attr != nil:
		c = compareUint(b.attr.Size, a.attr.Size)
	case l.Time && a.attr != nil && b.attr != nil:
		x, y := l.timeOf(a.attr), l.timeOf(b.attr)
		if c = compareUint(uint64(y.Sec), uint64(x.Sec)); c == 0 {
			c = compareUint(uint64(y.Nsec), uint64(x.Nsec))
		}
	}
	if c == 0 {
		c = strings.Compare(a.name, b.name)
	}
	if l.Reverse {
		return -c
	}
	return c
}

func (l *Run) sort(rows []*row) {
	if !l.Unsorted {
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

// timeOf returns the time that is shown and that -t sorts by.
func (l *Run) timeOf(a *nfs3.Fattr) nfs3.Time {
	switch {
	case l.Atime:
		return a.Atime
	case l.Ctime:
		return a.Ctime
	}
	return a.Mtime
}

// needsAttr reports whether the listing needs attributes.
func (l *Run) needsAttr() bool {
	return l.Long || l.Classify || l.Slash || l.Size || l.Time || l.Recursive || l.Dereference || l.json != nil
}

// halfYear is the age up to which ls shows the time of day.
const halfYear = 31556952 * time.Second / 2
