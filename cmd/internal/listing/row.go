// ls's lines: names, columns, and the long format.

package listing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// errUnreadable stands for a link whose error was reported.
var errUnreadable = errors.New("unreadable")

// shown returns a name in its output form, without alignment.
func (l *Run) shown(name string) string {
	if name = text.Quote(l.style, name); l.Hide {
		name = text.HideControl(name)
	}
	return name
}

// rows writes rows in the selected format.
func (l *Run) rows(ctx context.Context, d dir, rows []*row) error {
	if err := l.links(ctx, d, rows); err != nil {
		return err
	}
	if l.json != nil {
		for _, r := range rows {
			l.jsonRow(d, r)
		}
		return nil
	}
	pad := "" // aligns unquoted names with quoted ones
	if l.align {
		for _, r := range rows {
			if l.shown(r.name) != r.name {
				pad = " "
				break
			}
		}
	}
	var w widths
	for _, list := range [][]*row{rows, l.beside} {
		for _, r := range list {
			l.measure(&w, r)
		}
	}
	var names []string // for columns
	for _, r := range rows {
		name := l.nameOf(r, pad)
		if l.Inode && !l.Long {
			name = text.PadLeft(fileid(r), w.inode) + " " + name
		}
		switch {
		case l.Long:
			l.longRow(&w, r, name)
		case l.Columns:
			names = append(names, name)
		default:
			l.out.WriteString(name)
			l.out.WriteByte(l.end)
		}
	}
	if l.Columns {
		text.WriteColumns(l.out, names, l.width, l.end)
	}
	return nil
}

// nameOf returns a row's name with its -F sign, and a link's target.
func (l *Run) nameOf(r *row, pad string) string {
	name := l.shown(r.name)
	if name != r.name {
		pad = ""
	}
	switch {
	case r.attr == nil:
	case l.Long && r.attr.Type == nfs3.TypeLnk && r.more != nil:
		name += " -> " + l.shown(r.more.target) + l.sign(r.more.toType, r.more.toMode)
	default:
		name += l.sign(r.attr.Type, r.attr.Mode)
	}
	return pad + name
}

// sign returns the suffix for -F or -p.
func (l *Run) sign(t nfs3.FileType, mode uint32) string {
	switch {
	case t == nfs3.TypeDir && (l.Classify || l.Slash):
		return "/"
	case !l.Classify:
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

// widths are several rows' common column widths.
type widths struct{ inode, nlink, owner, group, size, major, minor int }

func (l *Run) measure(w *widths, r *row) {
	if l.Inode {
		w.inode = max(w.inode, len(fileid(r)))
	}
	if !l.Long {
		return
	}
	if r.attr == nil {
		w.nlink, w.owner, w.group, w.size = max(w.nlink, 1), max(w.owner, 1), max(w.group, 1), max(w.size, 1)
		return
	}
	a := r.attr
	w.nlink = max(w.nlink, len(strconv.FormatUint(uint64(a.Nlink), 10)))
	w.owner = max(w.owner, runewidth.StringWidth(l.owners.User(a.UID)))
	w.group = max(w.group, runewidth.StringWidth(l.owners.Group(a.GID)))
	if isDevice(a) {
		w.major = max(w.major, len(strconv.FormatUint(uint64(a.Rdev.Major), 10)))
		w.minor = max(w.minor, len(strconv.FormatUint(uint64(a.Rdev.Minor), 10)))
		w.size = max(w.size, w.major+2+w.minor)
	} else {
		w.size = max(w.size, len(l.sizeOf(a.Size)))
	}
}

func isDevice(a *nfs3.Fattr) bool { return a.Type == nfs3.TypeBlk || a.Type == nfs3.TypeChr }

func fileid(r *row) string {
	if r.attr == nil {
		return "?"
	}
	return strconv.FormatUint(r.attr.Fileid, 10)
}

func (l *Run) sizeOf(n uint64) string {
	if l.Human {
		return text.HumanSize(n)
	}
	return strconv.FormatUint(n, 10)
}

// longRow writes one -l line.
func (l *Run) longRow(w *widths, r *row, name string) {
	if l.Inode {
		fmt.Fprintf(l.out, "%s ", text.PadLeft(fileid(r), w.inode))
	}
	if r.attr == nil {
		fmt.Fprintf(l.out, "?????????? %s %s %s %s            ? %s%c", text.PadLeft("?", w.nlink), text.PadRight("?", w.owner),
			text.PadRight("?", w.group), text.PadLeft("?", w.size), name, l.end)
		return
	}
	a := r.attr
	length := l.sizeOf(a.Size)
	if isDevice(a) {
		length = fmt.Sprintf("%d, %*d", a.Rdev.Major, w.minor, a.Rdev.Minor)
	}
	fmt.Fprintf(l.out, "%s %*d %s %s %s %s %s%c", text.ModeString(nfsclient.GoMode(a.Type, a.Mode)), w.nlink, a.Nlink,
		l.owners.Pad(l.owners.User(a.UID), w.owner), l.owners.Pad(l.owners.Group(a.GID), w.group),
		text.PadLeft(length, w.size), shownTime(l.timeOf(a).Time()), name, l.end)
}

// shownTime formats a time: a time in the last half year has hour and minute, an older or future
// time has the year.
func shownTime(t time.Time) string {
	if now := time.Now(); t.After(now) || now.Sub(t) >= halfYear {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}
