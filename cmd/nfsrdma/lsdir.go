// Listing one directory: sorted with all names at hand, or unsorted in batches that are not kept.

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sync/errgroup"
)

// lsBatch is how many rows an unsorted listing holds at once.
const lsBatch = 4096

// An lsRow is one line. A sorted listing of a large directory has one for each
// name at once, so it holds nothing that is not shown.
type lsRow struct {
	name string
	attr *nfs3.Fattr // nil where names are enough, or attributes could not be had
	more *lsMore     // of symbolic links, operands, and directories that -R goes into
}

// lsMore is what few rows need.
type lsMore struct {
	fh     nfs3.FH
	of     *operand // an operand that is shown by itself
	target string   // of a symbolic link
	toType nfs3.FileType
	toMode uint32 // with toType, what the target leads to, for -F
}

// An lsDir is a directory to list.
type lsDir struct {
	fsys   *nfsclient.FS
	path   string // below the root of fsys
	shown  string // with what was typed in front
	node   nfsclient.Node
	parent *nfsclient.Node // nil: to be asked for
	row    *lsRow          // for sorting among operands
	top    bool            // an operand
}

// dir lists a directory, with its name before it when header is set, and returns
// the directories in it that -R goes on with.
func (l *lsRun) dir(ctx context.Context, d lsDir, header bool) ([]lsDir, error) {
	at := d.fsys.At(d.node.FH, d.path)
	entries := at.Entries
	if !l.needsAttr() {
		entries = at.Names
	}
	var rows []*lsRow
	var sum lsSum
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
		if l.long && l.json == nil && batches == 1 && last {
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
			if !begun && len(rows) == 0 && !l.all {
				l.fail(l.level(d), failure("cannot open directory", d.shown, err))
				return nil, nil
			}
			l.fail(l.level(d), failure("reading directory", d.shown, err))
			break
		}
		if strings.HasPrefix(e.Name(), ".") && !l.all && !l.almostAll {
			continue
		}
		r := l.row(d, e)
		sum.add(r)
		rows = append(rows, r)
		if l.unsorted && !l.columns && !l.recursive && len(rows) == lsBatch {
			if err := flush(false); err != nil {
				return nil, err
			}
			clear(rows)
			rows = rows[:0]
		}
	}
	l.sort(rows)
	err := flush(true)
	if !l.recursive {
		return nil, err
	}
	return l.below(d, rows), err
}

// level is the exit status for a directory that cannot be listed.
func (l *lsRun) level(d lsDir) int {
	if d.top {
		return 2
	}
	return 1
}

// row keeps of an entry what will be shown.
func (l *lsRun) row(d lsDir, e *nfsclient.DirEntry) *lsRow {
	r := &lsRow{name: e.Name()}
	if !l.needsAttr() {
		if l.inode {
			r.attr = &nfs3.Fattr{Fileid: e.Fileid()}
		}
		return r
	}
	n, err := e.Node()
	if err == nil && l.dereference && n.Attr.Type == nfs3.TypeLnk {
		n, err = d.fsys.Walk(context.Background(), below(d.path, r.name), true)
	}
	if err != nil {
		l.fail(1, failure("cannot access", below(d.shown, r.name), err))
		return r
	}
	attr := n.Attr
	r.attr = &attr
	if attr.Type == nfs3.TypeLnk || attr.Type == nfs3.TypeDir && l.recursive {
		r.more = &lsMore{fh: n.FH}
	}
	return r
}

// dots are "." and "..", which NFS listings of ours do not have.
func (l *lsRun) dots(ctx context.Context, d lsDir) []*lsRow {
	if !l.all {
		return nil
	}
	self := d.node.Attr
	up := self
	if d.parent != nil {
		up = d.parent.Attr
	} else if n, err := d.fsys.Walk(ctx, below(d.path, ".."), true); err == nil {
		up = n.Attr
	}
	return []*lsRow{{name: ".", attr: &self}, {name: "..", attr: &up}}
}

// below are the directories among rows.
func (l *lsRun) below(d lsDir, rows []*lsRow) []lsDir {
	var list []lsDir
	for _, r := range rows {
		if r.attr == nil || r.attr.Type != nfs3.TypeDir || r.more == nil {
			continue // "." and ".." have no handle here
		}
		list = append(list, lsDir{fsys: d.fsys, path: below(d.path, r.name), shown: below(d.shown, r.name),
			node: nfsclient.Node{FH: r.more.fh, Attr: *r.attr}, parent: &d.node})
	}
	return list
}

// header writes what is before a directory's names.
func (l *lsRun) header(d lsDir, name bool) {
	if name {
		if l.printed {
			l.out.WriteByte(l.end)
		}
		fmt.Fprintf(l.out, "%s:%c", l.shown(d.shown), l.end)
	}
	l.printed = true
}

// An lsSum adds up the space of a directory's files.
type lsSum struct{ blocks uint64 } // of 512 bytes

func (s *lsSum) add(r *lsRow) {
	if r.attr != nil {
		s.blocks += (r.attr.Used + 511) / 512
	}
}

func (l *lsRun) total(s lsSum) {
	n := fmt.Sprint((s.blocks + 1) / 2)
	if l.human {
		n = humanSize(s.blocks * 512)
	}
	fmt.Fprintf(l.out, "total %s%c", n, l.end)
}

// linkWindow is how many links are read at once.
const linkWindow = 32

// links fetches the contents of the symbolic links among rows, for -l.
func (l *lsRun) links(ctx context.Context, d lsDir, rows []*lsRow) error {
	if !l.long && l.json == nil {
		return nil
	}
	var g errgroup.Group
	g.SetLimit(linkWindow)
	for _, r := range rows {
		if r.attr == nil || r.attr.Type != nfs3.TypeLnk || r.more == nil {
			continue
		}
		fsys, path, shown := d.fsys, below(d.path, r.name), below(d.shown, r.name)
		more := r.more
		if more.of != nil {
			fsys, path, shown = more.of.fsys, more.of.path, r.name
		}
		g.Go(func() error {
			var err error
			if more.target, err = fsys.Client().Readlink(ctx, more.fh); err != nil && ctx.Err() == nil {
				l.rep.Report(failure("cannot read symbolic link", shown, err))
				return errUnreadable
			}
			if l.classify {
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
