// Lists one directory: sorted with all names in memory, or unsorted in batches.

package listing

import (
	"context"
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sync/errgroup"
)

// Batch is how many rows an unsorted listing holds at a time.
const Batch = 4096

// A row is one line. A sorted listing holds one row for every name in a directory, so a row holds
// only data to print.
type row struct {
	name string
	attr *nfs3.Fattr // nil if only names are needed, or the attributes are unavailable
	more *more       // set for symbolic links, operands, and directories that -R descends into
}

// more has the fields needed by few rows.
type more struct {
	fh     nfs3.FH
	of     *session.Operand // an operand that is listed itself
	target string           // a symbolic link's target
	toType nfs3.FileType
	toMode uint32 // with toType, the target's attributes, for -F
}

// A dir is a directory to list.
type dir struct {
	fsys   *nfsclient.FS
	path   string // below the root of fsys
	shown  string // as typed by the user
	node   nfsclient.Node
	parent *nfsclient.Node // nil: not known yet
	row    *row            // for sorting among operands
	top    bool            // an operand
}

// dir lists a directory and returns its subdirectories for -R. With header set, the directory's
// name comes first.
func (l *Run) dir(ctx context.Context, d dir, header bool) ([]dir, error) {
	at := d.fsys.At(d.node.FH, d.path)
	entries := at.Entries
	if !l.needsAttr() {
		entries = at.Names
	}
	var rows []*row
	var sum sum
	begun, batches := false, 0
	begin := func() {
		if !begun && l.json == nil {
			l.header(d, header)
		}
		begun = true
	}
	flush := func(last bool) error {
		begin()
		batches++
		if l.Long && l.json == nil && batches == 1 && last {
			l.total(sum)
		}
		return l.rows(ctx, d, rows)
	}
	for _, r := range l.dots(ctx, d) {
		sum.add(r)
		rows = append(rows, r)
	}
	for e, err := range entries(ctx, "/") {
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if !begun && len(rows) == 0 && !l.All {
				l.fail(l.level(d), session.Failure("cannot open directory", d.shown, err))
				return nil, nil
			}
			l.fail(l.level(d), session.Failure("reading directory", d.shown, err))
			break
		}
		if strings.HasPrefix(e.Name(), ".") && !l.All && !l.AlmostAll {
			continue
		}
		r := l.row(d, e)
		sum.add(r)
		rows = append(rows, r)
		if l.Unsorted && !l.Columns && !l.Recursive && len(rows) == Batch {
			if err := flush(false); err != nil {
				return nil, err
			}
			clear(rows)
			rows = rows[:0]
		}
	}
	l.sort(rows)
	err := flush(true)
	if !l.Recursive {
		return nil, err
	}
	return l.below(d, rows), err
}

// level returns the exit status for a directory that cannot be listed.
func (l *Run) level(d dir) int {
	if d.top {
		return 2
	}
	return 1
}

// row returns a row with those parts of an entry that are printed.
func (l *Run) row(d dir, e *nfsclient.DirEntry) *row {
	r := &row{name: e.Name()}
	if !l.needsAttr() {
		if l.Inode {
			r.attr = &nfs3.Fattr{Fileid: e.Fileid()}
		}
		return r
	}
	n, err := e.Node()
	if err == nil && l.Dereference && n.Attr.Type == nfs3.TypeLnk {
		n, err = d.fsys.Walk(context.Background(), session.Below(d.path, r.name), true)
	}
	if err != nil {
		l.fail(1, session.Failure("cannot access", session.Below(d.shown, r.name), err))
		return r
	}
	attr := n.Attr
	r.attr = &attr
	if attr.Type == nfs3.TypeLnk || attr.Type == nfs3.TypeDir && l.Recursive {
		r.more = &more{fh: n.FH}
	}
	return r
}

// dots returns "." and "..", which our NFS listings lack.
func (l *Run) dots(ctx context.Context, d dir) []*row {
	if !l.All {
		return nil
	}
	self := d.node.Attr
	up := self
	if d.parent != nil {
		up = d.parent.Attr
	} else if n, err := d.fsys.Walk(ctx, session.Below(d.path, ".."), true); err == nil {
		up = n.Attr
	}
	return []*row{{name: ".", attr: &self}, {name: "..", attr: &up}}
}

// below returns those rows that are directories to descend into.
func (l *Run) below(d dir, rows []*row) []dir {
	var list []dir
	for _, r := range rows {
		if r.attr == nil || r.attr.Type != nfs3.TypeDir || r.more == nil {
			continue // "." and ".." have no handle in rows
		}
		list = append(list, dir{fsys: d.fsys, path: session.Below(d.path, r.name), shown: session.Below(d.shown, r.name),
			node: nfsclient.Node{FH: r.more.fh, Attr: *r.attr}, parent: &d.node})
	}
	return list
}

// header writes the lines before a directory's names.
func (l *Run) header(d dir, name bool) {
	if name {
		if l.printed {
			l.out.WriteByte(l.end)
		}
		fmt.Fprintf(l.out, "%s:%c", l.shown(d.shown), l.end)
	}
	l.printed = true
}

// A sum adds up the space used by a directory's files.
type sum struct{ blocks uint64 } // of 512 bytes

func (s *sum) add(r *row) {
	if r.attr != nil {
		s.blocks += (r.attr.Used + 511) / 512
	}
}

func (l *Run) total(s sum) {
	n := fmt.Sprint((s.blocks + 1) / 2)
	if l.Human {
		n = text.HumanSize(s.blocks * 512)
	}
	fmt.Fprintf(l.out, "total %s%c", n, l.end)
}

// linkWindow limits the concurrent READLINK calls.
const linkWindow = 32

// links fetches the targets of the symbolic links among rows, for -l.
func (l *Run) links(ctx context.Context, d dir, rows []*row) error {
	if !l.Long && l.json == nil {
		return nil
	}
	var g errgroup.Group
	g.SetLimit(linkWindow)
	for _, r := range rows {
		if r.attr == nil || r.attr.Type != nfs3.TypeLnk || r.more == nil {
			continue
		}
		fsys, path, shown := d.fsys, session.Below(d.path, r.name), session.Below(d.shown, r.name)
		more := r.more
		if more.of != nil {
			fsys, path, shown = more.of.FS, more.of.Path, r.name
		}
		g.Go(func() error {
			var err error
			if more.target, err = fsys.Client().Readlink(ctx, more.fh); err != nil && ctx.Err() == nil {
				l.rep.Report(session.Failure("cannot read symbolic link", shown, err))
				return errUnreadable
			}
			if l.Classify {
				if n, err := fsys.Walk(ctx, path, true); err == nil {
					more.toType, more.toMode = n.Attr.Type, n.Attr.Mode
				}
			}
			return nil
		})
	}
	if g.Wait() != nil {
		l.status = max(l.status, 1)
	}
	return ctx.Err()
}
