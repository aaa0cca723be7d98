// nfsrdma stat: all attributes of files.

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/spf13/cobra"
)

func newStat(s *session) *cobra.Command {
	var follow, noFollow, asJSON bool
	var format string
	cmd := &cobra.Command{
		Use:   "stat [-L] [-c FORMAT] PATH...",
		Short: "Show all attributes of files",
		Long: `Show all attributes of files, of symbolic links those of the link unless -L is given.

FORMAT has the letters of stat(1): %a %A mode, %b %B blocks, %d %D file system, %f raw
mode, %F type, %g %G group, %h links, %i number, %n %N name, %o transfer size, %s size,
%t %T device, %u %U owner, %x %X %y %Y %z %Z times.`,
		Example: `  nfsrdma stat server:/export/file
  nfsrdma stat -c '%n %s %Y' server:/export/a server:/export/b`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow && noFollow {
				return fmt.Errorf("stat: -L and -P are opposites")
			}
			p := &statPrinter{out: cmd.OutOrStdout(), owners: newOwnerNames(false)}
			p.owners.unknown = "UNKNOWN" // as stat(1) has it, ls(1) has the number
			if cmd.Flags().Changed("format") {
				p.format = &format
			}
			rep := cli.NewReporter(s.stderr, "stat")
			count := 0
			err := s.eachOperand(cmd.Context(), rep, "cannot statx", args, func(o operand) error {
				f, err := newStatFile(cmd.Context(), o, follow)
				if err != nil {
					return err
				}
				if asJSON {
					writeJSONItem(p.out, &count, f.json())
					return nil
				}
				return p.print(f)
			})
			if asJSON {
				endJSONArray(p.out, count)
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "dereference", "L", false, "follow symbolic links")
	cmd.Flags().BoolVarP(&noFollow, "no-dereference", "P", false, "do not follow symbolic links, as is the case anyway")
	cmd.Flags().StringVarP(&format, "format", "c", "", "print this for each file, and a newline")
	cmd.Flags().BoolVar(&asJSON, "json", false, "a JSON array with an object for each file")
	return cmd
}

// A statFile is one file as stat shows it.
type statFile struct {
	operand
	nfsclient.Node
	target string // of a symbolic link
}

func newStatFile(ctx context.Context, o operand, follow bool) (f statFile, err error) {
	f.operand = o
	if f.Node, err = o.fsys.Walk(ctx, o.path, follow); err == nil && f.Attr.Type == nfs3.TypeLnk {
		f.target, err = o.fsys.Client().Readlink(ctx, f.FH)
	}
	return f, err
}

func (f *statFile) json() *jsonObject {
	o := newJSONObject(f.arg, &f.Attr)
	o.Handle = f.FH.String()
	if f.Attr.Type == nfs3.TypeLnk {
		o.withTarget(f.target)
	}
	return o
}

// A statPrinter writes files for people.
type statPrinter struct {
	out    io.Writer
	format *string // of -c; nil: the usual form
	owners *ownerNames
}

// What stat(1) shows, with the handle in place of the time of birth, which NFSv3 does not know.
const (
	statTop     = "  File: %n\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"
	statLink    = "  File: %n -> %l\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"
	statPlain   = "Device: %Dh\tInode: %-10i  Links: %h\n"
	statDevice  = "Device: %Dh\tInode: %-10i  Links: %-5h Device type: "
	statBottom  = "Access: (%04a/%A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\nAccess: %x\nModify: %y\nChange: %z\nHandle: %H\n"
	statTimeFmt = "2006-01-02 15:04:05.000000000 -0700"
)

func (p *statPrinter) print(f statFile) error {
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
	if p.format != nil {
		format = *p.format + "\n"
	}
	return p.expand(format, &f, p.format == nil)
}
