// nfsrdma ln: hard and symbolic links.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/spf13/cobra"
)

// lnFlags are the flags of ln.
type lnFlags struct {
	symbolic, force, ask, noDeref, noDir, verbose bool
	into                                          string // -t
}

func newLn(s *session.Session) *cobra.Command {
	var f lnFlags
	cmd := &cobra.Command{
		Use:   "ln [-s] [-f] [-T] TARGET LINK | ln [-s] [-f] TARGET... DIRECTORY",
		Short: "Make hard links, or symbolic links with -s",
		Long: `Make hard links, or symbolic links with -s. The TARGET of a symbolic link is text,
which becomes the content of the link. The TARGET of a hard link is a path on the
same export.`,
		Example: `  nfsrdma ln server:/export/file server:/export/other
  nfsrdma ln -s ../file server:/export/dir/link
  nfsrdma ln -sfn release-2 server:/export/current
  nfsrdma ln -t server:/export/dir server:/export/a server:/export/b`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.into != "" {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			if f.noDir {
				return cobra.ExactArgs(2)(cmd, args)
			}
			return cobra.MinimumNArgs(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.into != "" && f.noDir {
				return errors.New("ln: cannot combine --target-directory and --no-target-directory")
			}
			return runLn(s, cmd, f, args)
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&f.symbolic, "symbolic", "s", false, "make symbolic links whose content is TARGET, as it stands")
	fl.BoolVarP(&f.force, "force", "f", false, "replace what has the name of the link, unless it is a directory")
	fl.BoolVarP(&f.ask, "interactive", "i", false, "ask before replacing")
	fl.BoolVarP(&f.noDeref, "no-dereference", "n", false, "when LINK is a symbolic link to a directory, take it for a file")
	fl.BoolVarP(&f.noDir, "no-target-directory", "T", false, "LINK is the name of the link, even if it is a directory")
	fl.StringVarP(&f.into, "target-directory", "t", "", "make the links in this directory")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "say what is made")
	return cmd
}

// A linker is one run of ln.
type linker struct {
	lnFlags
	s   *session.Session
	out io.Writer
	q   *asker

	made map[string]bool // paths of links made in this run
}

func runLn(s *session.Session, cmd *cobra.Command, f lnFlags, args []string) error {
	ctx := cmd.Context()
	last := f.into
	if last == "" {
		last, args = args[len(args)-1], args[:len(args)-1]
	}
	to, err := s.Operand(ctx, last)
	if err != nil {
		return fmt.Errorf("ln: %s: %w", text.QuoteAlways(last), err)
	}
	l := &linker{lnFlags: f, s: s, made: map[string]bool{}, out: cmd.OutOrStdout(), q: newAsker("ln", cmd.InOrStdin(), s.Stderr)}
	into, err := l.isDir(ctx, to)
	switch {
	case f.noDir:
		into = false
	case into || len(args) == 1 && f.into == "":
	case err != nil:
		return cli.WithCause(err, fmt.Sprintf("ln: target %s: %s", text.QuoteAlways(last), cli.Reason(err)))
	case f.into != "":
		return fmt.Errorf("ln: target %s is not a directory", text.QuoteAlways(last))
	default:
		return fmt.Errorf("ln: target %s: %s", text.QuoteAlways(last), cli.Reason(syscall.ENOTDIR))
	}
	rep := s.Reporter("ln")
	for _, target := range args {
		place := to
		if into {
			name := path.Base(strings.TrimRight(target, "/"))
			if from, err := s.Operand(ctx, target); !f.symbolic && err == nil {
				// the name comes from the path, because the URL has escapes
				name = path.Base(strings.TrimRight(from.Path, "/"))
			}
			place = session.Operand{Arg: session.Below(to.Arg, name), FS: to.FS, Path: session.Below(to.Path, name)}
		}
		if err := l.link(ctx, target, place); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			rep.Report(err)
			continue
		}
		l.made[place.Path] = true
	}
	return rep.Err()
}

// isDir reports whether the last argument is a directory for the links.
func (l *linker) isDir(ctx context.Context, o session.Operand) (bool, error) {
	stat := o.FS.Stat
	if l.noDeref {
		stat = o.FS.Lstat
	}
	fi, err := stat(ctx, o.Path)
	return err == nil && fi.IsDir(), err
}

// link makes one link; the error is a complete line.
func (l *linker) link(ctx context.Context, target string, to session.Operand) error {
	made, err := l.maker(ctx, target, to)
	if err != nil {
		return err
	}
	kind, arrow := "hard", "=>"
	if l.symbolic {
		kind, arrow = "symbolic", "->"
	}
	err = made.make(ctx, to.Path)
	if errors.Is(err, fs.ErrExist) && (l.force || l.ask) {
		var done bool
		if done, err = l.replace(ctx, made, to); err == nil && !done {
			return nil
		}
	}
	if err != nil {
		var done session.Finished
		if errors.As(err, &done) {
			return err
		}
		shown := text.QuoteAlways(to.Arg)
		if !l.symbolic && !errors.Is(err, fs.ErrExist) {
			shown += " => " + text.QuoteAlways(target)
		}
		return cli.WithCause(err, fmt.Sprintf("failed to create %s link %s: %s", kind, shown, cli.Reason(err)))
	}
	if l.verbose {
		fmt.Fprintf(l.out, "%s %s %s\n", text.QuoteAlways(to.Arg), arrow, text.QuoteAlways(target))
	}
	return nil
}

// A newLink is a link to make, possibly under a temporary name.
type newLink struct {
	make   func(ctx context.Context, name string) error
	node   nfsclient.Node // a hard link's target
	target string         // as typed
}

// maker checks a target and returns the link to make.
func (l *linker) maker(ctx context.Context, target string, to session.Operand) (newLink, error) {
	if l.symbolic {
		if strings.Contains(target, "://") {
			return newLink{}, fmt.Errorf("%s: the content of a symbolic link is a plain path", text.QuoteAlways(target))
		}
		return newLink{target: target, make: func(ctx context.Context, name string) error {
			return to.FS.Symlink(ctx, target, name)
		}}, nil
	}
	from, err := l.s.Operand(ctx, target)
	var fi *nfsclient.FileInfo
	if err == nil {
		fi, err = from.FS.Lstat(ctx, from.Path)
	}
	if err != nil {
		return newLink{}, session.Failure("failed to access", target, err)
	}
	if fi.IsDir() {
		return newLink{}, fmt.Errorf("%s: hard link not allowed for directory", text.QuoteNeeded(target))
	}
	if err := sameExport(from.FS, to.FS, target, to.Arg); err != nil {
		return newLink{}, err
	}
	return newLink{target: target, node: fi.Node, make: func(ctx context.Context, name string) error {
		return from.FS.Link(ctx, from.Path, name)
	}}, nil
}

// replace makes the link under a temporary name and renames it over the existing file, so that the
// name always exists.
func (l *linker) replace(ctx context.Context, n newLink, to session.Operand) (done bool, err error) {
	dir, base, slash, err := to.FS.Parent(ctx, to.Path)
	if err != nil {
		return false, err
	}
	old, err := dir.Lstat(ctx, base)
	switch {
	case err != nil:
		return false, err
	case old.IsDir():
		return false, session.Finished{Text: text.QuoteNeeded(to.Arg) + ": cannot overwrite directory"}
	case slash:
		return false, syscall.EEXIST
	case l.made[to.Path]:
		return false, session.Finished{Text: fmt.Sprintf("will not overwrite just-created %s with %s", text.QuoteAlways(to.Arg), text.QuoteAlways(n.target))}
	case !l.symbolic && sameObject(old.Node, n.node):
		// Renaming one name of a file to another of its names does nothing, so no link is made
		// here.
		if fromDir, fromBase, e := l.placeOf(ctx, n.target); e == nil && fromBase == base && fromDir.Root() == dir.Root() {
			return false, session.Finished{Text: fmt.Sprintf("%s and %s are the same file", text.QuoteAlways(n.target), text.QuoteAlways(to.Arg))}
		}
		return true, nil
	case l.ask && !l.force && !l.q.yes("replace %s", text.QuoteAlways(to.Arg)):
		return false, nil
	}
	temp := session.Below(strings.TrimSuffix(strings.TrimRight(to.Path, "/"), base), fmt.Sprintf(".nfsrdma-%d-%x", os.Getpid(), rand.Uint64()))
	if err := n.make(ctx, temp); err != nil {
		return false, err
	}
	if err := to.FS.Rename(ctx, temp, to.Path); err != nil {
		_ = to.FS.Unlink(context.WithoutCancel(ctx), temp)
		return false, err
	}
	return true, nil
}

// placeOf returns the directory and the name of a hard link's target.
func (l *linker) placeOf(ctx context.Context, target string) (*nfsclient.FS, string, error) {
	o, err := l.s.Operand(ctx, target)
	if err != nil {
		return nil, "", err
	}
	dir, base, _, err := o.FS.Parent(ctx, o.Path)
	return dir, base, err
}

// sameObject reports whether two nodes are one object.
func sameObject(a, b nfsclient.Node) bool {
	return a.Attr.Fileid == b.Attr.Fileid && a.Attr.Fsid == b.Attr.Fsid && a.Attr.Type != nfs3.FileType(0)
}

// sameExport returns an error for a link across exports, which no server can make.
func sameExport(a, b *nfsclient.FS, aName, bName string) error {
	if a.Client() != b.Client() || a.Root() != b.Root() {
		return fmt.Errorf("%s and %s are not on the same export", aName, bName)
	}
	return nil
}
