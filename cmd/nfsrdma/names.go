// nfsrdma mkdir, rm, mv and ln: operations on names.

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

func newMkdir(s *session) *cobra.Command {
	var parents bool
	cmd := &cobra.Command{
		Use:   "mkdir [-p] PATH...",
		Short: "Make directories",
		Example: `  nfsrdma mkdir server:/export/dir
  nfsrdma mkdir -p server:/export/a/b/c`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				fsys, rest, err := s.open(cmd.Context(), arg)
				if err != nil {
					return err
				}
				mkdir := fsys.Mkdir
				if parents {
					mkdir = fsys.MkdirAll
				}
				if err := mkdir(cmd.Context(), rest, 0o777); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make missing parents, and do not mind a directory that is there")
	return cmd
}

func newRm(s *session) *cobra.Command {
	var recursive, force bool
	cmd := &cobra.Command{
		Use:   "rm [-r] [-f] PATH...",
		Short: "Remove files, links and empty directories; with -r, trees",
		Example: `  nfsrdma rm server:/export/file
  nfsrdma rm -r server:/export/dir`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				fsys, rest, err := s.open(cmd.Context(), arg)
				if err != nil {
					return err
				}
				if rest == "" {
					return fmt.Errorf("%s: is the root of the export", arg)
				}
				_, err = fsys.Lstat(cmd.Context(), rest)
				if err == nil && recursive {
					err = fsys.RemoveAll(cmd.Context(), rest)
				} else if err == nil {
					err = fsys.Remove(cmd.Context(), rest)
				}
				if err != nil && !(force && errors.Is(err, fs.ErrNotExist)) {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories with all that is below them")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not mind a path that is not there")
	return cmd
}

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

func newLn(s *session) *cobra.Command {
	var symbolic bool
	cmd := &cobra.Command{
		Use:   "ln [-s] TARGET LINK",
		Short: "Make a hard link, or with -s a symbolic link",
		Example: `  nfsrdma ln server:/export/file server:/export/other
  nfsrdma ln -s ../file server:/export/dir/link`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			to, name, err := s.open(ctx, args[1])
			if err != nil {
				return err
			}
			if symbolic {
				if strings.Contains(args[0], "://") {
					return fmt.Errorf("%s: the content of a symbolic link is a plain path", args[0])
				}
				return to.Symlink(ctx, args[0], intoDir(cmd, to, name, args[0]))
			}
			from, old, err := s.open(ctx, args[0])
			if err != nil {
				return err
			}
			if err := sameExport(from, to, args[0], args[1]); err != nil {
				return err
			}
			return from.Link(ctx, old, intoDir(cmd, to, name, old))
		},
	}
	cmd.Flags().BoolVarP(&symbolic, "symbolic", "s", false, "make a symbolic link whose content is TARGET, as it stands")
	return cmd
}

// intoDir is name, or target's own name in it when it is a directory.
func intoDir(cmd *cobra.Command, fsys *nfsclient.FS, name, target string) string {
	if fi, err := fsys.Stat(cmd.Context(), name); err == nil && fi.IsDir() {
		return path.Join(name, path.Base(target))
	}
	return name
}
