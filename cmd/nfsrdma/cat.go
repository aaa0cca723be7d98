// nfsrdma cat: files to the standard output.

package main

import "github.com/spf13/cobra"

func newCat(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "cat PATH...",
		Short: "Write files to the standard output",
		Example: `  nfsrdma cat nfsrdma://server/export/file
  nfsrdma cat server:/export/a server:/export/b | sha256sum`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				fsys, rest, err := s.open(cmd.Context(), arg)
				if err != nil {
					return err
				}
				f, err := fsys.Open(cmd.Context(), rest)
				if err != nil {
					return err
				}
				if _, err := f.WriteTo(cmd.OutOrStdout()); err != nil {
					return err
				}
				if err := f.Close(); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
