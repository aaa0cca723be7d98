// Messages on a terminal while the server does not respond.

package session

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal; tests replace it.
var isTerminal = func(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// notice returns a callback for connections to t's server: it writes one line when the server stops
// responding and one line when the server responds again, in the words of the kernel's client, for
// any number of connections. notice returns nil unless stderr is a terminal.
func (s *Session) notice(t nfsclient.Target) func(bool) {
	if !isTerminal(s.Stderr) {
		return nil
	}
	return SilenceNotice(t.Hosts(), s.say)
}

func (s *Session) say(line string) { fmt.Fprintln(s.Stderr, "nfsrdma: "+line) }

// failoverNotice returns the callback for a failover, or for a server that is not used. A failover
// is shown only on a terminal; an unused server always.
func (s *Session) failoverNotice() func(server string, err error) {
	tell := MoveNotice(s.say)
	return func(server string, err error) {
		if err != nil || isTerminal(s.Stderr) {
			tell(server, err)
		}
	}
}

// MoveNotice returns a function for nfsclient.Options.Moved that writes one line per call.
func MoveNotice(tell func(line string)) func(server string, err error) {
	return func(server string, err error) {
		if err != nil {
			tell(fmt.Sprintf("server %s is not used: %v", server, err))
			return
		}
		tell("going on with server " + server)
	}
}

// SilenceNotice returns a function for nfsclient.Options.Responding. It writes one line when the
// first of a server's connections stops responding, and one line when all connections respond
// again.
func SilenceNotice(host string, tell func(line string)) func(bool) {
	var mu sync.Mutex
	silent := 0
	return func(ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if ok {
			if silent--; silent == 0 {
				tell("server " + host + " OK")
			}
			return
		}
		if silent++; silent == 1 {
			tell("server " + host + " not responding, still trying")
		}
	}
}
