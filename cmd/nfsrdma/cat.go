// nfsrdma cat: files to the standard output.

package main

import (
	"io"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
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
			rep := cli.NewReporter(s.Stderr, "cat")
			out := &stickyWriter{w: cmd.OutOrStdout()}
			err := s.EachOperand(cmd.Context(), rep, "", args, func(o session.Operand) error {
				if out.err != nil {
					return cli.ErrReported // the next file could not be written either
				}
				f, err := o.FS.Open(cmd.Context(), o.Path)
				if err != nil {
					return err
				}
				defer f.Close()
				if _, err = f.WriteTo(out); out.err != nil {
					return session.Finished("write error: " + cli.Reason(out.err))
				}
				return err
			})
			return err
		},
	}
}

// A stickyWriter keeps the first error of a Writer, to tell it from one of the other side.
type stickyWriter struct {
	w   io.Writer
	err error
}

func (s *stickyWriter) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}
