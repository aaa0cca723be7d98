// One file in stat(1)'s form.

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

// A Stat is one file with its attributes.
type Stat struct {
	session.Operand
	nfsclient.Node
	target string // a symbolic link's target
}

// NewStat fetches the attributes of o, and the target of a symbolic link.
func NewStat(ctx context.Context, o session.Operand, follow bool) (f Stat, err error) {
	f.Operand = o
	if f.Node, err = o.FS.Walk(ctx, o.Path, follow); err == nil && f.Attr.Type == nfs3.TypeLnk {
		f.target, err = o.FS.Client().Readlink(ctx, f.FH)
	}
	return f, err
}

// Object returns the JSON form.
func (f *Stat) Object() *Object {
	o := newObject(f.Arg, &f.Attr)
	o.Handle = f.FH.String()
	if f.Attr.Type == nfs3.TypeLnk {
		o.withTarget(f.target)
	}
	return o
}

// A Printer writes files in text form.
type Printer struct {
	out    io.Writer
	Format *string // the format of -c; nil: the default format
	owners *text.Owners

	invalid error // the first error in Format; Print then skips all later files
}

// stat(1)'s format, with the handle in place of the birth time, which NFSv3 lacks.
const (
	statTop     = "  File: %n\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"
	statLink    = "  File: %n -> %l\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"
	statPlain   = "Device: %Dh\tInode: %-10i  Links: %h\n"
	statDevice  = "Device: %Dh\tInode: %-10i  Links: %-5h Device type: "
	statBottom  = "Access: (%04a/%A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\nAccess: %x\nModify: %y\nChange: %z\n"
	statTimeFmt = "2006-01-02 15:04:05.000000000 -0700"
)

// NewPrinter returns a printer with stat(1)'s default format.
func NewPrinter(out io.Writer) *Printer {
	p := &Printer{out: out, owners: text.NewOwners(false)}
	p.owners.Unknown = "UNKNOWN" // as in stat(1); ls(1) prints the number
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
