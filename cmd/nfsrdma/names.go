// nfsrdma mv: renaming.

package main

import (
	"fmt"
	"path"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

func newMv(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "mv SOURCE... DESTINATION",
		Short: "Rename, within one server",
		Example: `  nfsrdma mv server:/export/a server:/export/b
  nfsrdma mv server:/export/a server:/export/b server:/export/dir`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			last := args[len(args)-1]
			to, dst, err := s.open(ctx, last)
			if err != nil {
				return err
			}
			into := false
			if fi, err := to.Stat(ctx, dst); err == nil {
				into = fi.IsDir()
			}
			if len(args) > 2 && !into {
				return fmt.Errorf("%s: is not a directory", last)
			}
			for _, arg := range args[:len(args)-1] {
				from, src, err := s.open(ctx, arg)
				if err != nil {
					return err
				}
				if err := sameExport(from, to, arg, last); err != nil {
					return err
				}
				name := dst
				if into {
					name = path.Join(dst, path.Base(src))
				}
				if err := from.Rename(ctx, src, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// sameExport refuses what no server can do.
func sameExport(a, b *nfsclient.FS, aName, bName string) error {
	if a.Client() != b.Client() || a.Root() != b.Root() {
		return fmt.Errorf("%s and %s are not on the same export", aName, bName)
	}
	return nil
}
