// Refusals by a server, explained once at the end of a command.

package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/rights"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A refusals collects server errors that missing rights may explain. It is safe for concurrent use.
type refusals struct {
	mu   sync.Mutex
	seen []nfsclient.StatusError
}

// Reporter returns a Reporter that also notes each error for Advise.
func (s *Session) Reporter(name string) *cli.Reporter {
	return cli.NewReporter(s.Stderr, name, s.Note)
}

// Note records an error for Advise.
func (s *Session) Note(err error) {
	var status *nfsclient.StatusError
	if !errors.As(err, &status) {
		return
	}
	switch status.Status {
	case nfs3.ErrROFS, nfs3.ErrAcces, nfs3.ErrPerm:
	default:
		return
	}
	s.refused.mu.Lock()
	defer s.refused.mu.Unlock()
	if !slices.Contains(s.refused.seen, *status) {
		s.refused.seen = append(s.refused.seen, *status)
	}
}

// Advise writes the reasons of the recorded refusals, as far as the server shows them. If some
// reasons are certain, the uncertain reasons are left out.
func (s *Session) Advise(ctx context.Context) {
	s.refused.mu.Lock()
	seen := slices.Clone(s.refused.seen)
	s.refused.mu.Unlock()
	if len(seen) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Flags.ConnectTimeout)
	defer cancel()
	var sure, perhaps []string
	for _, o := range s.opened {
		if o.fsys.Client().Kerberos() {
			continue // the server's uids differ from this machine's
		}
		view, err := o.view(ctx)
		if err != nil {
			continue
		}
		for _, status := range seen {
			text, certain := view.Refusal(status)
			switch {
			case text == "":
			case certain:
				sure = append(sure, o.name+": "+text)
			default:
				perhaps = append(perhaps, o.name+": "+text)
			}
		}
	}
	if len(sure) > 0 {
		perhaps = nil
	}
	lines := append(sure, perhaps...)
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		s.say(line)
	}
}

// view returns the View for an operand's directory, or for its nearest existing ancestor.
func (o *openedPath) view(ctx context.Context) (v rights.View, err error) {
	for p := strings.Trim(o.rest, "/"); ; p = path.Dir(p) {
		if p == "." {
			p = ""
		}
		n, err := o.fsys.Walk(ctx, p, true)
		if err == nil && n.Attr.Type == nfs3.TypeDir {
			v, err = rights.Look(ctx, o.fsys.Client(), n.FH, transport.SysCred())
			if p != "" {
				v.Dir = path.Join(o.fsys.Path(), p)
			}
			return v, err
		}
		if p == "" {
			return v, fmt.Errorf("no directory: %w", err)
		}
	}
}
