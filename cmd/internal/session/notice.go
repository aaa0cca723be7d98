// What a person at a terminal is told while the server is away.

package session

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/term"
)

// isTerminal reports whether somebody looks on; tests put others in its place.
var isTerminal = func(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// notice returns what is called when a connection to the server of t gets no answer
// any more, and when it does again: one line each, in the words of the kernel's
// client, however many connections there are. It is nil where nobody looks on.
func (s *Session) notice(t nfsclient.Target) func(bool) {
	if !isTerminal(s.Stderr) {
		return nil
	}
	var mu sync.Mutex
	silent := 0
	return func(ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if ok {
			if silent--; silent == 0 {
				fmt.Fprintf(s.Stderr, "nfsrdma: server %s OK\n", t.Host)
			}
			return
		}
		if silent++; silent == 1 {
			fmt.Fprintf(s.Stderr, "nfsrdma: server %s not responding, still trying\n", t.Host)
		}
	}
}
