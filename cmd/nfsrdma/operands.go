// The operands of cp and mv: local and remote paths.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/cmd/internal/treecopy"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

// copyOperand resolves an argument. The result's Err is set if the server or export is unknown.
func copyOperand(ctx context.Context, s *session.Session, arg string) treecopy.Operand {
	o := treecopy.Operand{Text: arg}
	t, err := s.Target(arg)
	if errors.Is(err, nfsclient.ErrNotRemote) && likePort(arg) {
		o.Err = fmt.Errorf("%s: a port is written nfsrdma://HOST:PORT/export/path: for a local path write ./%s", text.QuoteAlways(arg), arg)
		return o
	}
	if errors.Is(err, nfsclient.ErrNotRemote) {
		o.Tree, o.Path, o.Name = treecopy.Local{}, arg, lastName(arg)
		return o
	}
	var fsys *nfsclient.FS
	if err == nil {
		fsys, o.Path, err = s.Mount(ctx, t)
	}
	if err != nil {
		o.Err = err
		return o
	}
	o.Tree, o.Name = treecopy.Remote{FS: fsys}, lastName(t.Path)
	return o
}

// likePort reports whether an argument begins like HOST:PORT/ and no local file has that name.
func likePort(arg string) bool {
	begin, _, ok := strings.Cut(arg, "/")
	host, port, colon := strings.Cut(begin, ":")
	if _, err := strconv.ParseUint(port, 10, 16); !ok || !colon || host == "" || err != nil {
		return false
	}
	_, err := os.Lstat(begin)
	return errors.Is(err, fs.ErrNotExist)
}

// lastName returns the last component of a path as typed, including "." and "..".
func lastName(p string) string {
	p = strings.TrimRight(p, "/")
	return p[strings.LastIndexByte(p, '/')+1:]
}

// targetFlags are the flags about the last argument.
type targetFlags struct {
	dir   string // -t
	noDir bool   // -T
}

func (f *targetFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.dir, "target-directory", "t", "", "make all targets in this directory; every argument is a source")
	cmd.Flags().BoolVarP(&f.noDir, "no-target-directory", "T", false, "the destination is the target itself, even if it is a directory")
}

// copyOperands splits the arguments into sources and destination.
func copyOperands(s *session.Session, cmd *cobra.Command, args []string, f targetFlags) (sources []treecopy.Operand, dst treecopy.Operand, err error) {
	last := f.dir
	switch {
	case f.dir != "" && f.noDir:
		return nil, dst, errors.New(cmd.Name() + ": cannot combine --target-directory (-t) and --no-target-directory (-T)")
	case f.dir != "":
	case len(args) < 2:
		return nil, dst, fmt.Errorf("%s: missing destination file operand after %s", cmd.Name(), text.QuoteAlways(args[0]))
	case f.noDir && len(args) > 2:
		return nil, dst, fmt.Errorf("%s: extra operand %s", cmd.Name(), text.QuoteAlways(args[2]))
	default:
		args, last = args[:len(args)-1], args[len(args)-1]
	}
	for _, a := range args {
		sources = append(sources, copyOperand(cmd.Context(), s, a))
	}
	dst = copyOperand(cmd.Context(), s, last)
	return sources, dst, dst.Err
}

// reporting sets a run's callbacks: errors and warnings go to r, -v to standard output, questions
// to the user.
func reporting(cmd *cobra.Command, r *cli.Reporter, verbose bool, o *treecopy.Options) {
	o.Report = func(e *treecopy.Error) {
		line := e.What
		if e.Err != nil {
			line += ": " + cli.Reason(e.Err)
		}
		err := cli.WithCause(e, line)
		if e.Warning {
			r.WarnOf(err)
		} else {
			r.Report(err)
		}
	}
	o.Warn = r.Warn
	if verbose {
		out := &lineWriter{w: cmd.OutOrStdout()}
		o.Verbose = out.line
	}
	ask := newAsker(cmd.Name(), cmd.InOrStdin(), cmd.ErrOrStderr())
	o.Ask = func(question string) bool { return ask.yes("%s", question) }
	o.Quote = text.QuoteAlways
}

// A lineWriter writes whole lines from several goroutines.
type lineWriter struct {
	mu sync.Mutex // held while a line is written
	w  io.Writer
}

func (l *lineWriter) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.w, text)
}
