// nfsrdma mkdir: making directories.

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
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/spf13/cobra"
)

func newMkdir(s *session) *cobra.Command {
	var parents, verbose bool
	var mode string
	cmd := &cobra.Command{
		Use:   "mkdir [-p] [-m MODE] [-v] PATH...",
		Short: "Make directories",
		Long: `Make directories, with the mode 0777 less the umask, or with that of -m. With -p
missing parents are made too, with the mode 0777 less the umask and with u+wx.`,
		Example: `  nfsrdma mkdir server:/export/dir
  nfsrdma mkdir -p -m 750 server:/export/a/b/c`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m := &maker{umask: cli.Umask(), parents: parents}
			m.mode = fs.ModePerm &^ m.umask
			if cmd.Flags().Changed("mode") {
				var err error
				if m.mode, err = parseMode(mode, fs.ModeDir|fs.ModePerm, m.umask); err != nil {
					return fmt.Errorf("mkdir: invalid mode %s", quoteAlways(mode))
				}
				m.exact = true
			}
			if verbose {
				m.out = cmd.OutOrStdout()
			}
			rep := cli.NewReporter(s.stderr, "mkdir")
			return s.eachOperand(cmd.Context(), rep, "cannot create directory", args, func(o operand) error {
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

func (m *maker) make(ctx context.Context, o operand) error {
	if m.parents {
		for _, p := range prefixes(o) {
			if err := m.parent(ctx, p); err != nil {
				return failed("cannot create directory", p.arg, err)
			}
		}
	}
	err := m.one(ctx, o, m.mode)
	if m.parents && errors.Is(err, fs.ErrExist) {
		if fi, e := o.fsys.Stat(ctx, o.path); e == nil && fi.IsDir() {
			return nil
		}
	}
	return err
}

// parent makes a directory on the way, or passes through the one that is there.
func (m *maker) parent(ctx context.Context, o operand) error {
	fi, err := o.fsys.Stat(ctx, o.path)
	switch {
	case err == nil && !fi.IsDir():
		return syscall.ENOTDIR
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	err = m.one(ctx, o, fs.ModePerm&^m.umask|0o300)
	if errors.Is(err, fs.ErrExist) { // another client was quicker, or it is a dangling link
		if fi, e := o.fsys.Stat(ctx, o.path); e == nil && fi.IsDir() {
			return nil
		}
	}
	return err
}

func (m *maker) one(ctx context.Context, o operand, mode fs.FileMode) error {
	if err := o.fsys.Mkdir(ctx, o.path, mode); err != nil {
		return err
	}
	if m.out != nil {
		fmt.Fprintf(m.out, "mkdir: created directory %s\n", quoteAlways(o.arg))
	}
	if mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 { // few servers take these at once
		return o.fsys.Chmod(ctx, o.path, mode)
	}
	return nil
}

// failed is failure that eachOperand does not put the whole operand before again.
func failed(what, name string, err error) error { return finished(failure(what, name, err).Error()) }

// prefixes are the directories on the way to an operand, the first one first.
func prefixes(o operand) []operand {
	var list []operand
	name := strings.TrimRight(o.path, "/")
	arg := strings.TrimRight(o.arg, "/")
	for {
		i, j := strings.LastIndexByte(name, '/'), strings.LastIndexByte(arg, '/')
		if i < 0 || j < 0 {
			break
		}
		name, arg = strings.TrimRight(name[:i], "/"), strings.TrimRight(arg[:j], "/")
		if name == "" {
			break
		}
		list = append(list, operand{arg: arg, fsys: o.fsys, path: name})
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// parseMode reads a mode of chmod(1): octal, or clauses as in u=rwx,go-w that are
// applied to the mode from, whose type counts for X. The umask counts where a
// clause names nobody.
func parseMode(s string, from, umask fs.FileMode) (fs.FileMode, error) {
	if s != "" && strings.Trim(s, "01234567") == "" && len(s) <= 6 {
		var n uint32
		for _, c := range []byte(s) {
			n = n<<3 | uint32(c-'0')
		}
		if n > 0o7777 {
			return 0, fs.ErrInvalid
		}
		return nfsclient.GoMode(nfs3.TypeReg, n), nil
	}
	bits := nfsclient.WireMode(from)
	for clause := range strings.SplitSeq(s, ",") {
		if err := modeClause(clause, from.IsDir(), uint32(umask), &bits); err != nil {
			return 0, err
		}
	}
	return nfsclient.GoMode(nfs3.TypeReg, bits), nil
}

// modeClause applies one clause, [ugoa]*([-+=][rwxXstugo]*)+, to bits.
func modeClause(clause string, dir bool, umask uint32, bits *uint32) error {
	who := clause[:len(clause)-len(strings.TrimLeft(clause, "ugoa"))]
	rest := clause[len(who):]
	mask, keep := uint32(0), ^uint32(0)
	for _, c := range who {
		mask |= map[rune]uint32{'u': 0o4700, 'g': 0o2070, 'o': 0o1007, 'a': 0o7777}[c]
	}
	if who == "" {
		mask, keep = 0o7777, ^umask
	}
	if rest == "" {
		return fs.ErrInvalid
	}
	for rest != "" {
		op := rest[0]
		end := strings.IndexAny(rest[1:], "+-=") + 1
		if end == 0 {
			end = len(rest)
		}
		perms := rest[1:end]
		rest = rest[end:]
		var set uint32
		for _, c := range perms {
			v, ok := map[rune]uint32{'r': 0o444, 'w': 0o222, 'x': 0o111, 's': 0o6000, 't': 0o1000,
				'u': *bits >> 6 & 7 * 0o111, 'g': *bits >> 3 & 7 * 0o111, 'o': *bits & 7 * 0o111}[c]
			if c == 'X' {
				if ok = true; dir || *bits&0o111 != 0 {
					v = 0o111
				}
			}
			if !ok {
				return fs.ErrInvalid
			}
			set |= v
		}
		set &= mask & keep
		switch op {
		case '+':
			*bits |= set
		case '-':
			*bits &^= set
		case '=':
			*bits = *bits&^mask | set
		default:
			return fs.ErrInvalid
		}
	}
	return nil
}
