// One file as stat shows it.

package listing

import (
	"context"
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A Stat is one file as stat shows it.
type Stat struct {
	session.Operand
	nfsclient.Node
	target string // of a symbolic link
}

// NewStat asks the server for the attributes of o, and for where it leads if it is a symbolic link.
func NewStat(ctx context.Context, o session.Operand, follow bool) (f Stat, err error) {
	f.Operand = o
	if f.Node, err = o.FS.Walk(ctx, o.Path, follow); err == nil && f.Attr.Type == nfs3.TypeLnk {
		f.target, err = o.FS.Client().Readlink(ctx, f.FH)
	}
	return f, err
}

// Object is the form of --json.
func (f *Stat) Object() *Object {
	o := newObject(f.Arg, &f.Attr)
	o.Handle = f.FH.String()
	if f.Attr.Type == nfs3.TypeLnk {
		o.withTarget(f.target)
	}
	return o
}

// A Printer writes files for people.
type Printer struct {
	out    io.Writer
	Format *string // of -c; nil: the usual form
	owners *text.Owners

	invalid error // of Format, when it was met: all other files are left out
}

// What stat(1) shows, with the handle in place of the time of birth, which NFSv3 does not know.
const (
	statTop     = "  File: %n\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"
	statLink    = "  File: %n -> %l\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"
	statPlain   = "Device: %Dh\tInode: %-10i  Links: %h\n"
	statDevice  = "Device: %Dh\tInode: %-10i  Links: %-5h Device type: "
	statBottom  = "Access: (%04a/%A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\nAccess: %x\nModify: %y\nChange: %z\n"
	statTimeFmt = "2006-01-02 15:04:05.000000000 -0700"
)

// NewPrinter writes the usual form of stat(1) to out.
func NewPrinter(out io.Writer) *Printer {
	p := &Printer{out: out, owners: text.NewOwners(false)}
	p.owners.Unknown = "UNKNOWN" // as stat(1) has it, ls(1) has the number
	return p
}

// Print writes one file.
func (p *Printer) Print(f Stat) error {
	format := statTop
	if f.Attr.Type == nfs3.TypeLnk {
		format = statLink
	}
	if isDevice(&f.Attr) {
		format += statDevice + fmt.Sprintf("%d,%d\n", f.Attr.Rdev.Major, f.Attr.Rdev.Minor)
	} else {
		format += statPlain
	}
	format += statBottom
	if p.invalid != nil {
		return cli.ErrReported
	}
	if p.Format == nil {
		return p.expand(format, &f, "Handle: "+f.FH.String()+"\n", true)
	}
	return p.expand(*p.Format, &f, "\n", false)
}
