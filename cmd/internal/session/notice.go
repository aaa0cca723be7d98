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
	return SilenceNotice(t.Hosts(), s.say)
}

func (s *Session) say(line string) { fmt.Fprintln(s.Stderr, "nfsrdma: "+line) }

// moved returns what is called when one of several servers takes the place of another, or is not used; a
// person is told of the first, everybody of the second.
func (s *Session) moved() func(server string, err error) {
	tell := MoveNotice(s.say)
	return func(server string, err error) {
		if err != nil || isTerminal(s.Stderr) {
			tell(server, err)
		}
	}
}

// MoveNotice returns a function for nfsclient.Options.Moved that tells one line each time.
func MoveNotice(tell func(line string)) func(server string, err error) {
	return func(server string, err error) {
		if err != nil {
			tell(fmt.Sprintf("server %s is not used: %v", server, err))
			return
		}
		tell("going on with server " + server)
	}
}

// SilenceNotice returns a function for nfsclient.Options.Responding that tells one line
// when the first of a server's connections gets no answer, and one when all get answers again.
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
