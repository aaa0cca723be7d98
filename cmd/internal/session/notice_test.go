// What a terminal is told while a server is away.

package session

import (
	"io"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A terminal is told once that a server is away, and once that it is back, whatever
// the number of connections; a file or a pipe is told nothing.
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
