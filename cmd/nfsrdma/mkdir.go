// nfsrdma mkdir: makes directories.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/spf13/cobra"
)

func newMkdir(s *session.Session) *cobra.Command {
	var parents, verbose bool
	var mode string
	cmd := &cobra.Command{
		Use:   "mkdir [-p] [-m MODE] [-v] PATH...",
		Short: "Make directories",
		Long: `Make directories. Their mode is 0777 less the umask, or the mode of -m. With -p,
missing parents are made too. The mode of a parent is 0777 less the umask, and
always includes u+wx.`,
		Example: `  nfsrdma mkdir server:/export/dir
  nfsrdma mkdir -p -m 750 server:/export/a/b/c`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m := &maker{umask: cli.Umask(), parents: parents}
			m.mode = fs.ModePerm &^ m.umask
			if cmd.Flags().Changed("mode") {
				var err error
				if m.mode, err = text.ParseMode(mode, fs.ModeDir|fs.ModePerm, m.umask); err != nil {
					return fmt.Errorf("mkdir: invalid mode %s", text.QuoteAlways(mode))
				}
				m.exact = true
			}
			if verbose {
				m.out = cmd.OutOrStdout()
			}
			rep := s.Reporter("mkdir")
			return s.EachOperand(cmd.Context(), rep, "cannot create directory", args, func(o session.Operand) error {
				return m.make(cmd.Context(), o)
			})
		},
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make missing parents, and do not mind a directory that is there")
	cmd.Flags().StringVarP(&mode, "mode", "m", "", "mode as for chmod, 750 or u=rwx,g=rx: the umask does not count")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "say what is made")
	return cmd
}

// A maker is one run of mkdir.
type maker struct {
	parents     bool
	mode, umask fs.FileMode
	exact       bool      // the mode was given
	out         io.Writer // nil unless verbose
}

func (m *maker) make(ctx context.Context, o session.Operand) error {
	if m.parents {
		for _, p := range prefixes(o) {
			if err := m.parent(ctx, p); err != nil {
				return failed("cannot create directory", p.Arg, err)
			}
		}
	}
	err := m.one(ctx, o, m.mode)
	if m.parents && errors.Is(err, fs.ErrExist) {
		if fi, e := o.FS.Stat(ctx, o.Path); e == nil && fi.IsDir() {
			return nil
		}
	}
	return err
}

// parent makes an ancestor directory, or accepts an existing one.
func (m *maker) parent(ctx context.Context, o session.Operand) error {
	fi, err := o.FS.Stat(ctx, o.Path)
	switch {
	case err == nil && !fi.IsDir():
		return syscall.ENOTDIR
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	err = m.one(ctx, o, fs.ModePerm&^m.umask|0o300)
	if errors.Is(err, fs.ErrExist) { // another client was faster, or the name is a dangling link
		if fi, e := o.FS.Stat(ctx, o.Path); e == nil && fi.IsDir() {
			return nil
		}
	}
	return err
}

func (m *maker) one(ctx context.Context, o session.Operand, mode fs.FileMode) error {
	if err := o.FS.Mkdir(ctx, o.Path, mode); err != nil {
		return err
	}
	if m.out != nil {
		fmt.Fprintf(m.out, "mkdir: created directory %s\n", text.QuoteAlways(o.Arg))
	}
	if mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 { // few servers accept these in MKDIR
		return o.FS.Chmod(ctx, o.Path, mode)
	}
	return nil
}

// failed returns a failure that EachOperand does not prefix with the whole operand.
func failed(what, name string, err error) error {
	return session.Finished{Text: session.Failure(what, name, err).Error(), Cause: err}
}

// prefixes returns an operand's ancestor directories, the topmost first.
func prefixes(o session.Operand) []session.Operand {
	var list []session.Operand
	name := strings.TrimRight(o.Path, "/")
	arg := strings.TrimRight(o.Arg, "/")
	for {
		i, j := strings.LastIndexByte(name, '/'), strings.LastIndexByte(arg, '/')
		if i < 0 || j < 0 {
			break
		}
		name, arg = strings.TrimRight(name[:i], "/"), strings.TrimRight(arg[:j], "/")
		if name == "" {
			break
		}
		list = append(list, session.Operand{Arg: arg, FS: o.FS, Path: name})
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}
