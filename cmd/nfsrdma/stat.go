// nfsrdma stat: all attributes of files.

package main

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/listing"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/spf13/cobra"
)

func newStat(s *session.Session) *cobra.Command {
	var follow, noFollow, asJSON bool
	var format string
	cmd := &cobra.Command{
		Use:   "stat [-L] [-c FORMAT] PATH...",
		Short: "Show all attributes of files",
		Long: `Show all attributes of files, of symbolic links those of the link unless -L is given.

FORMAT has the letters of stat(1), with the flags, the width and the precision of
printf, as in %.3Y: %a %A mode, %b %B blocks, %d %D %Hd %Ld file system, %f raw mode,
%F type, %g %G group, %h links, %i number, %n %N name, %o transfer size, %r %R %Hr %Lr
%t %T device, %s size, %u %U owner, %x %X %y %Y %z %Z times. Of the birth (%w %W), the
mount point (%m) and the security context (%C) NFS version 3 knows nothing.`,
		Example: `  nfsrdma stat server:/export/file
  nfsrdma stat -c '%n %s %Y' server:/export/a server:/export/b`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow && noFollow {
				return fmt.Errorf("stat: -L and -P are opposites")
			}
			p := listing.NewPrinter(cmd.OutOrStdout())
			if cmd.Flags().Changed("format") {
				p.Format = &format
			}
			rep := cli.NewReporter(s.Stderr, "stat")
			list := text.NewJSONArray(cmd.OutOrStdout())
			err := s.EachOperand(cmd.Context(), rep, "cannot statx", args, func(o session.Operand) error {
				f, err := listing.NewStat(cmd.Context(), o, follow)
				if err != nil {
					return err
				}
				if asJSON {
					list.Item(f.Object())
					return nil
				}
				return p.Print(f)
			})
			if asJSON {
				list.End()
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
