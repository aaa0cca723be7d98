// nfsrdma stat: all attributes of files.

package main

import (
	"fmt"

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
		Long: `Show all attributes of files. For a symbolic link they are those of the link,
unless -L is given.

FORMAT has the letters of stat(1), with the flags, width and precision of printf,
as in %.3Y:

  mode           %a %A, raw %f
  type           %F
  links          %h
  owner          %u %U
  group          %g %G
  size           %s
  blocks         %b %B
  inode number   %i
  name           %n %N
  times          %x %X %y %Y %z %Z
  device         %r %R %Hr %Lr %t %T
  file system    %d %D %Hd %Ld
  transfer size  %o

NFS version 3 has no time of birth (%w %W), mount point (%m) or security context
(%C).`,
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
			rep := s.Reporter("stat")
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
