// nfsrdma ls and stat: what is there.

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/spf13/cobra"
)

func newLs(s *session) *cobra.Command {
	var long, bare bool
	cmd := &cobra.Command{
		Use:   "ls [-l] PATH...",
		Short: "List directories",
		Example: `  nfsrdma ls nfsrdma://server/export
  nfsrdma ls -l server:/export/dir
  nfsrdma ls -U server:/export/huge    # as it comes, not sorted`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			for i, arg := range args {
				if len(args) > 1 {
					fmt.Fprintf(out, "%s%s:\n", strings.Repeat("\n", min(i, 1)), arg)
				}
				if err := s.list(cmd.Context(), out, arg, long, bare); err != nil {
					out.Flush()
					return err
				}
			}
			return out.Flush()
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "mode, links, owner, group, size and time too")
	cmd.Flags().BoolVarP(&bare, "unsorted", "U", false, "in the server's order, as it comes")
	return cmd
}

func (s *session) list(ctx context.Context, out io.Writer, arg string, long, unsorted bool) error {
	fsys, rest, err := s.open(ctx, arg)
	if err != nil {
		return err
	}
	fi, err := fsys.Stat(ctx, rest)
	if err != nil {
		return err
	}
	w := out
	if long {
		tw := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
		defer tw.Flush()
		w = tw
	}
	if !fi.IsDir() {
		if fi, err = fsys.Lstat(ctx, rest); err == nil {
			err = listLine(ctx, w, fsys, path.Base(rest), fi.Node, long)
		}
		return err
	}
	if unsorted {
		for e, err := range fsys.Entries(ctx, rest) {
			if err == nil {
				err = listEntry(ctx, w, fsys, e, long)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	entries, err := fsys.ReadDir(ctx, rest)
	for _, e := range entries {
		if err := listEntry(ctx, w, fsys, e, long); err != nil {
			return err
		}
	}
	return err
}

func listEntry(ctx context.Context, w io.Writer, fsys *nfsclient.FS, e *nfsclient.DirEntry, long bool) error {
	if !long {
		_, err := fmt.Fprintln(w, printable(e.Name()))
		return err
	}
	n, err := e.Node()
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name(), err)
	}
	return listLine(ctx, w, fsys, e.Name(), n, long)
}

// listLine writes one object. Times of the last half year are written to the minute.
func listLine(ctx context.Context, w io.Writer, fsys *nfsclient.FS, name string, n nfsclient.Node, long bool) error {
	if !long {
		_, err := fmt.Fprintln(w, printable(name))
		return err
	}
	mtime := n.Attr.Mtime.Time()
	layout := "Jan _2  2006"
	if age := time.Since(mtime); age > -time.Hour && age < 182*24*time.Hour {
		layout = "Jan _2 15:04"
	}
	mode := nfsclient.GoMode(n.Attr.Type, n.Attr.Mode)
	length := fmt.Sprint(n.Attr.Size)
	if mode&fs.ModeDevice != 0 {
		length = fmt.Sprintf("%d, %d", n.Attr.Rdev.Major, n.Attr.Rdev.Minor)
	}
	shown := printable(name)
	if n.Attr.Type == nfs3.TypeLnk {
		target, err := fsys.Client().Readlink(ctx, n.FH)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		shown += " -> " + printable(target)
	}
	_, err := fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t %s %s\n", modeString(mode), n.Attr.Nlink, n.Attr.UID, n.Attr.GID,
		length, mtime.Format(layout), shown)
	return err
}

func newStat(s *session) *cobra.Command {
	var noFollow bool
	cmd := &cobra.Command{
		Use:     "stat PATH...",
		Short:   "Show all attributes of files",
		Example: "  nfsrdma stat server:/export/file",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				fsys, rest, err := s.open(cmd.Context(), arg)
				if err != nil {
					return err
				}
				stat := fsys.Stat
				if noFollow {
					stat = fsys.Lstat
				}
				fi, err := stat(cmd.Context(), rest)
				if err != nil {
					return err
				}
				printStat(cmd.OutOrStdout(), arg, fi)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&noFollow, "no-dereference", "P", false, "do not follow a symbolic link")
	return cmd
}

func printStat(w io.Writer, arg string, fi *nfsclient.FileInfo) {
	a := &fi.Attr
	const stamp = "2006-01-02 15:04:05.000000000 -0700"
	fmt.Fprintf(w, "  File: %s\n", printable(arg))
	fmt.Fprintf(w, "  Type: %s\n", typeName(fi.Mode()))
	fmt.Fprintf(w, "  Size: %d (%d on disk)\n", a.Size, a.Used)
	fmt.Fprintf(w, "  Mode: %04o (%s)\n", a.Mode&0o7777, modeString(fi.Mode()))
	fmt.Fprintf(w, " Owner: %d:%d\n", a.UID, a.GID)
	fmt.Fprintf(w, " Links: %d\n", a.Nlink)
	if fi.Mode()&fs.ModeDevice != 0 {
		fmt.Fprintf(w, "Device: %d, %d\n", a.Rdev.Major, a.Rdev.Minor)
	}
	fmt.Fprintf(w, "Fileid: %d on %x\n", a.Fileid, a.Fsid)
	fmt.Fprintf(w, "Handle: %s\n", fi.FH)
	fmt.Fprintf(w, "Access: %s\n", a.Atime.Time().Format(stamp))
	fmt.Fprintf(w, "Modify: %s\n", a.Mtime.Time().Format(stamp))
	fmt.Fprintf(w, "Change: %s\n", a.Ctime.Time().Format(stamp))
}
