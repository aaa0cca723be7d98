// nfsrdma mv: renames, and moves between servers and this machine.

package main

import (
	"os"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/treecopy"
	"github.com/spf13/cobra"
)

func newMv(s *session.Session) *cobra.Command {
	var o treecopy.Options
	var target targetFlags
	var verbose bool
	cmd := &cobra.Command{
		Use:   "mv SOURCE... DESTINATION",
		Short: "Rename, or move between exports, servers and this machine",
		Long: `Rename files and directories, as mv(1) does.

A server can rename only within one export. To another export, to another server,
and to or from this machine, the source is copied as by cp -a. It is removed when
all of it is on the disk of the other side and no error occurred. Otherwise the
source stays as it is. Files that change or appear during the copy stay too.`,
		Example: `  nfsrdma mv server:/export/a server:/export/b
  nfsrdma mv server:/export/a server:/export/b server:/export/dir
  nfsrdma mv ./results server:/export/archive/`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := s.Reporter("mv")
			reporting(cmd, r, verbose, &o)
			o.NoTargetDir, o.TargetDir = target.noDir, target.dir != ""
			o.Umask, o.Privileged = cli.Umask(), os.Geteuid() == 0
			sources, dst, err := copyOperands(s, cmd, args, target)
			if err != nil {
				return err
			}
			if err := treecopy.New(o).Move(cmd.Context(), sources, dst); err != nil {
				return err
			}
			return r.Err()
		},
	}
	overwriteFlags(cmd.Flags(), &o)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what is done")
	target.add(cmd)
	return cmd
}
