// nfsrdma rm: removes files, links and directories.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

// rmFlags are the flags of rm.
type rmFlags struct {
	recursive, force, dirs, verbose bool
	each, once                      bool // -i, -I
}

func newRm(s *session.Session) *cobra.Command {
	var f rmFlags
	var bigR bool
	cmd := &cobra.Command{
		Use:   "rm [-r] [-f] [-i] [-d] [-v] PATH...",
		Short: "Remove files and links, and directories with -r",
		Long: `Remove files and links. With -r, also remove directories and all their contents.

An error is reported, and the rest is removed. A symbolic link is removed, not the
file that it points to. The root of an export is refused, and so is a path that
ends in "." or "..".`,
		Example: `  nfsrdma rm server:/export/file
  nfsrdma rm -r server:/export/dir
  nfsrdma rm -ri server:/export/dir`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.force {
				return nil
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.recursive = f.recursive || bigR
			return runRm(s, cmd, f, args)
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.recursive, "recursive", "r", false, "remove directories with all that is below them")
	fl.BoolVarP(&bigR, "Recursive", "R", false, "the same as -r")
	_ = fl.MarkHidden("Recursive")
	// The last of -f, -i and -I counts.
	fl.BoolFuncP("force", "f", "do not mind a path that is not there, and do not ask", func(string) error {
		f.force, f.each, f.once = true, false, false
		return nil
	})
	fl.BoolVarP(&f.dirs, "dir", "d", false, "remove empty directories too")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "say what is removed")
	fl.BoolFuncP("interactive", "i", "ask before each removal", func(string) error {
		f.force, f.each, f.once = false, true, false
		return nil
	})
	fl.BoolFuncP("once", "I", "ask once before removing more than three paths, or recursively", func(string) error {
		f.force, f.each, f.once = false, false, true
		return nil
	})
	return cmd
}

func runRm(s *session.Session, cmd *cobra.Command, f rmFlags, args []string) error {
	r := &remover{
		rmFlags: f, rep: s.Reporter("rm"), out: cmd.OutOrStdout(),
		ask: newAsker("rm", cmd.InOrStdin(), s.Stderr),
	}
	if f.once && (len(args) > 3 || f.recursive) && !r.ask.yes("remove %s", r.arguments(len(args))) {
		return nil
	}
	return s.EachOperand(cmd.Context(), r.rep, "cannot remove", args, func(o session.Operand) error {
		return r.remove(cmd.Context(), o)
	})
}

// A remover is one run of rm.
type remover struct {
	rmFlags
	rep *cli.Reporter
	out io.Writer
	ask *asker
}

func (r *remover) arguments(n int) string {
	what := text.Plural(int64(n), "argument")
	if r.recursive {
		what += " recursively"
	}
	return what
}

// remove removes one operand. It checks in coreutils' order.
func (r *remover) remove(ctx context.Context, o session.Operand) error {
	last := path.Base("/" + o.Path)
	fi, err := o.FS.Lstat(ctx, strings.TrimRight(o.Path, "/"))
	switch {
	case err != nil:
		return r.ignore(err)
	case strings.HasSuffix(o.Path, "/") && !fi.IsDir():
		return r.ignore(r.slashed(ctx, o))
	case !fi.IsDir():
	case !r.recursive && !r.dirs:
		return syscall.EISDIR
	case strings.Trim(o.Path, "/") == "":
		return session.Finished{Text: "refusing to remove the root of an export: skipping " + text.QuoteAlways(o.Arg)}
	case last == "." || last == "..":
		return session.Finished{Text: "refusing to remove '.' or '..' directory: skipping " + text.QuoteAlways(o.Arg)}
	case !r.recursive:
		return r.emptyDir(ctx, o, fi)
	}
	if !fi.IsDir() || r.recursive {
		return r.tree(ctx, o)
	}
	return nil
}

// slashed returns the error for a path with a trailing slash that is not a directory. Even with -r,
// neither a link to a directory nor the files in that directory are removed.
func (r *remover) slashed(ctx context.Context, o session.Operand) error {
	if _, err := o.FS.Stat(ctx, o.Path); err == nil && !r.recursive {
		return syscall.EISDIR
	}
	return syscall.ENOTDIR
}

// ignore returns nil for errors that -f ignores.
func (r *remover) ignore(err error) error {
	if r.force && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		return nil
	}
	return err
}

// emptyDir removes an empty directory, for -d.
func (r *remover) emptyDir(ctx context.Context, o session.Operand, fi *nfsclient.FileInfo) error {
	for _, err := range o.FS.Entries(ctx, o.Path) {
		if err != nil {
			return err
		}
		return syscall.ENOTEMPTY
	}
	if r.each && !r.wanted(o.Arg, fi, false) {
		return nil
	}
	err := o.FS.Rmdir(ctx, o.Path)
	if err == nil {
		r.removed(o.Arg, true)
	}
	return err
}

// tree removes a file, or a directory with its contents.
func (r *remover) tree(ctx context.Context, o session.Operand) error {
	shown := func(name string) string { return o.Arg + strings.TrimPrefix(name, o.Path) }
	how := nfsclient.TreeRemoval{
		Failed: func(name string, err error) {
			if err = r.ignore(err); err != nil && ctx.Err() == nil {
				r.rep.Report(session.Failure("cannot remove", shown(name), err))
			}
		},
		Removed: func(name string, dir bool) { r.removed(shown(name), dir) },
	}
	if r.each {
		how.Ask = func(name string, fi *nfsclient.FileInfo, enter bool) bool { return r.wanted(shown(name), fi, enter) }
	}
	_ = o.FS.RemoveTree(ctx, o.Path, how) // Failed has reported the errors
	return nil
}

// wanted asks whether to remove name, or with enter, to descend into the directory.
func (r *remover) wanted(name string, fi *nfsclient.FileInfo, enter bool) bool {
	what := "remove " + text.FileType(fi.Mode(), fi.Size())
	if enter {
		what = "descend into directory"
	}
	return r.ask.yes("%s %s", what, text.QuoteAlways(name))
}

func (r *remover) removed(name string, dir bool) {
	if !r.verbose {
		return
	}
	what := "removed"
	if dir {
		what = "removed directory"
	}
	fmt.Fprintf(r.out, "%s %s\n", what, text.QuoteAlways(name))
}
