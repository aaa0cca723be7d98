// nfsrdma cat: files to the standard output.

package main

import (
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
)

func newCat(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "cat PATH...",
		Short: "Write files to the standard output",
		Example: `  nfsrdma cat nfsrdma://server/export/file
  nfsrdma cat server:/export/a server:/export/b | sha256sum`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rep := s.Reporter("cat")
			return s.EachOperand(cmd.Context(), rep, "", args, func(o session.Operand) error {
				f, err := o.FS.Open(cmd.Context(), o.Path)
				if err != nil {
					return err
				}
				defer f.Close()
				_, err = f.WriteTo(cmd.OutOrStdout())
				return err
			})
		},
	}
}
