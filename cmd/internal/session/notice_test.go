// Messages on a terminal while a server does not respond.

package session

import (
	"io"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A terminal shows once that a server does not respond, and once that it does again, whatever the
// number of connections. A file or pipe gets nothing.
func TestNoticeOfSilence(t *testing.T) {
	look := isTerminal
	defer func() { isTerminal = look }()
	var told strings.Builder
	s := &Session{Stderr: &told}
	if s.notice(nfsclient.Target{Host: "h"}) != nil {
		t.Error("lines for no terminal")
	}
	isTerminal = func(io.Writer) bool { return true }
	n := s.notice(nfsclient.Target{Host: "h"})
	for _, ok := range []bool{false, false, true, true, false, true} {
		n(ok)
	}
	const want = "nfsrdma: server h not responding, still trying\nnfsrdma: server h OK\n"
	if told.String() != want+want {
		t.Errorf("told:\n%s", told.String())
	}
}
