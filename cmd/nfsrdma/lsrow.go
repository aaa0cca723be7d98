// The lines of ls: names, columns, and the long form.

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// errUnreadable stands for a link that was reported.
var errUnreadable = errors.New("unreadable")

// shown is a name as it is written, without alignment.
func (l *lsRun) shown(name string) string {
	if name = quote(l.style, name); l.hide {
		name = hideControl(name)
	}
	return name
}

// rows writes rows in the form that was asked for.
func (l *lsRun) rows(ctx context.Context, d lsDir, rows []*lsRow) error {
	if err := l.links(ctx, d, rows); err != nil {
		return err
	}
	if l.json != nil {
		for _, r := range rows {
			l.json.row(d, r)
		}
		return nil
	}
	pad := "" // before unquoted names, beside quoted ones
	if l.align {
		for _, r := range rows {
			if l.shown(r.name) != r.name {
				pad = " "
				break
			}
		}
	}
	var w lsWidths
	for _, list := range [][]*lsRow{rows, l.beside} {
		for _, r := range list {
			l.measure(&w, r)
		}
	}
	var names []string // for columns
	for _, r := range rows {
		name := l.nameOf(r, pad)
		if l.inode && !l.long {
			name = padLeft(fileid(r), w.inode) + " " + name
		}
		switch {
		case l.long:
			l.longRow(&w, r, name)
		case l.columns:
			names = append(names, name)
		default:
			l.out.WriteString(name)
			l.out.WriteByte(l.end)
		}
	}
	if l.columns {
		writeColumns(l.out, names, l.width)
	}
	return nil
}

// nameOf is a row's name with its sign, and a link's content.
func (l *lsRun) nameOf(r *lsRow, pad string) string {
	name := l.shown(r.name)
	if name != r.name {
		pad = ""
	}
	switch {
	case r.attr == nil:
	case l.long && r.attr.Type == nfs3.TypeLnk && r.more != nil:
		name += " -> " + l.shown(r.more.target) + l.sign(r.more.toType, r.more.toMode)
	default:
		name += l.sign(r.attr.Type, r.attr.Mode)
	}
	return pad + name
}

// sign is what -F or -p has after a name.
func (l *lsRun) sign(t nfs3.FileType, mode uint32) string {
	switch {
	case t == nfs3.TypeDir && (l.classify || l.slash):
		return "/"
	case !l.classify:
	case t == nfs3.TypeReg && mode&0o111 != 0:
		return "*"
	case t == nfs3.TypeLnk:
		return "@"
	case t == nfs3.TypeFIFO:
		return "|"
	case t == nfs3.TypeSock:
		return "="
	}
	return ""
}

// lsWidths are the widths of the columns of rows that are written together.
type lsWidths struct{ inode, nlink, owner, group, size, major, minor int }

func (l *lsRun) measure(w *lsWidths, r *lsRow) {
	if l.inode {
		w.inode = max(w.inode, len(fileid(r)))
	}
	if !l.long {
		return
	}
	if r.attr == nil {
		w.nlink, w.owner, w.group, w.size = max(w.nlink, 1), max(w.owner, 1), max(w.group, 1), max(w.size, 1)
		return
	}
	a := r.attr
	w.nlink = max(w.nlink, len(strconv.FormatUint(uint64(a.Nlink), 10)))
	w.owner = max(w.owner, runewidth.StringWidth(l.owners.user(a.UID)))
	w.group = max(w.group, runewidth.StringWidth(l.owners.group(a.GID)))
	if isDevice(a) {
		w.major = max(w.major, len(strconv.FormatUint(uint64(a.Rdev.Major), 10)))
		w.minor = max(w.minor, len(strconv.FormatUint(uint64(a.Rdev.Minor), 10)))
		w.size = max(w.size, w.major+2+w.minor)
	} else {
		w.size = max(w.size, len(l.sizeOf(a.Size)))
	}
}

func isDevice(a *nfs3.Fattr) bool { return a.Type == nfs3.TypeBlk || a.Type == nfs3.TypeChr }

func fileid(r *lsRow) string {
	if r.attr == nil {
		return "?"
	}
	return strconv.FormatUint(r.attr.Fileid, 10)
}

func (l *lsRun) sizeOf(n uint64) string {
	if l.human {
		return humanSize(n)
	}
	return strconv.FormatUint(n, 10)
}

// longRow writes one line of -l.
func (l *lsRun) longRow(w *lsWidths, r *lsRow, name string) {
	if l.inode {
		fmt.Fprintf(l.out, "%s ", padLeft(fileid(r), w.inode))
	}
	if r.attr == nil {
		fmt.Fprintf(l.out, "?????????? %s %s %s %s            ? %s%c", padLeft("?", w.nlink), padRight("?", w.owner),
			padRight("?", w.group), padLeft("?", w.size), name, l.end)
		return
	}
	a := r.attr
	length := l.sizeOf(a.Size)
	if isDevice(a) {
		length = fmt.Sprintf("%d, %*d", a.Rdev.Major, w.minor, a.Rdev.Minor)
	}
	fmt.Fprintf(l.out, "%s %*d %s %s %s %s %s%c", modeString(nfsclient.GoMode(a.Type, a.Mode)), w.nlink, a.Nlink,
		l.owners.pad(l.owners.user(a.UID), w.owner), l.owners.pad(l.owners.group(a.GID), w.group),
		padLeft(length, w.size), lsTime(l.timeOf(a).Time()), name, l.end)
}

// lsTime is the time of day for the last half year, and the year for what is
// older, or later than now.
func lsTime(t time.Time) string {
	if now := time.Now(); t.After(now) || now.Sub(t) >= halfYear {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}

func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(n-runewidth.StringWidth(s), 0)) + s
}

func padRight(s string, n int) string {
	return s + strings.Repeat(" ", max(n-runewidth.StringWidth(s), 0))
}

// humanSize is a size of at most four characters, rounded up, as -h has it.
func humanSize(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10)
	}
	const units = "KMGTPE"
	unit, u := uint64(1024), 0
	for u < len(units)-1 && (n-1)/unit+1 >= 1024 {
		unit, u = unit*1024, u+1
	}
	whole, rest := n/unit, n%unit
	if whole < 10 {
		tenths := (rest*10 + unit - 1) / unit // rounded up; unit is at most 2^60
		if whole, tenths = whole+tenths/10, tenths%10; whole < 10 {
			return fmt.Sprintf("%d.%d%c", whole, tenths, units[u])
		}
		rest = 0
	}
	if rest > 0 {
		whole++
	}
	return fmt.Sprintf("%d%c", whole, units[u])
}

// ownerNames are the names that this machine has for numbers of owners and groups.
type ownerNames struct {
	numeric       bool
	unknown       string // the name of a number that has none; empty: the number
	users, groups map[uint32]string
}

func newOwnerNames(numeric bool) *ownerNames {
	return &ownerNames{numeric: numeric, users: make(map[uint32]string), groups: make(map[uint32]string)}
}

func (o *ownerNames) user(id uint32) string {
	return o.name(o.users, id, func(id string) string {
		if u, err := user.LookupId(id); err == nil {
			return u.Username
		}
		return cmp.Or(o.unknown, id)
	})
}

func (o *ownerNames) group(id uint32) string {
	return o.name(o.groups, id, func(id string) string {
		if g, err := user.LookupGroupId(id); err == nil {
			return g.Name
		}
		return cmp.Or(o.unknown, id)
	})
}

func (o *ownerNames) name(known map[uint32]string, id uint32, find func(string) string) string {
	if s, ok := known[id]; ok {
		return s
	}
	s := strconv.FormatUint(uint64(id), 10)
	if !o.numeric {
		s = find(s)
	}
	known[id] = s
	return s
}

// pad is to the right of a name, and to the left of a number.
func (o *ownerNames) pad(s string, n int) string {
	if strings.Trim(s, "0123456789") == "" {
		return padLeft(s, n)
	}
	return padRight(s, n)
}

// writeColumns writes names down columns, in as few lines as the width allows.
func writeColumns(out *bufio.Writer, names []string, width int) {
	sizes := make([]int, len(names))
	for i, n := range names {
		sizes[i] = runewidth.StringWidth(n)
	}
	for lines := 1; lines <= len(names); lines++ {
		var cols []int
		sum := 0
		for i := 0; i < len(names) && sum <= width+2; i += lines {
			col := 0
			for _, n := range sizes[i:min(i+lines, len(sizes))] {
				col = max(col, n)
			}
			cols = append(cols, col+2)
			sum += col + 2
		}
		if sum-2 >= width && lines < len(names) || len(cols)*lines < len(names) {
			continue
		}
		for row := range lines {
			for c, i := 0, row; i < len(names); c, i = c+1, i+lines {
				out.WriteString(names[i])
				if i+lines < len(names) {
					out.WriteString(strings.Repeat(" ", cols[c]-sizes[i]))
				}
			}
			out.WriteByte('\n')
		}
		return
	}
}
