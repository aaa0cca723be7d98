// Errors that name the whole path as typed, rather than the part below the export's root.

package session

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
)

// InFull replaces the path in a remote error with the whole path. Local errors, and errors that a
// command has already rewritten, stay unchanged.
func (s *Session) InFull(err error) error {
	var status *nfsclient.StatusError
	var gone *transport.ConnectError
	if !errors.As(err, &status) && !errors.As(err, &gone) {
		return err
	}
	var inner, full error
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		inner, full = pe, &fs.PathError{Op: pe.Op, Path: s.typedPath(pe.Path), Err: pe.Err}
	case errors.As(err, &le):
		old := s.typedPath(le.Old)
		if le.Op == "symlink" {
			old = le.Old // the link's target is only text
		}
		inner, full = le, &os.LinkError{Op: le.Op, Old: old, New: s.typedPath(le.New), Err: le.Err}
	default:
		return err
	}
	return errors.New(strings.Replace(err.Error(), inner.Error(), full.Error(), 1))
}

// typedPath returns the remote path as typed for name, a path below an export's root. The most
// recently opened path that equals or contains it is used.
func (s *Session) typedPath(name string) string {
	for i := len(s.opened) - 1; i >= 0; i-- {
		o := s.opened[i]
		rest := strings.Trim(o.rest, "/")
		below, ok := strings.CutPrefix(strings.Trim(name, "/"), rest)
		if !ok || below != "" && rest != "" && below[0] != '/' {
			continue
		}
		if below = strings.TrimPrefix(below, "/"); below == "" {
			return o.arg
		}
		return strings.TrimSuffix(o.arg, "/") + "/" + below
	}
	return name
}
