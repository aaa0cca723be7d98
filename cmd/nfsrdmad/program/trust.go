// Which callers serve trusts: the flags, and the lines at the start.

package program

import (
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/spf13/pflag"
)

// trust has the values from the flags about callers.
type trust struct {
	noRootSquash bool
	rootSquash   bool // requests the default; kept for old command lines
	trustLocal   bool
	secure       bool
	manageGIDs   bool
}

func (t *trust) flags(f *pflag.FlagSet) {
	f.BoolVar(&t.noRootSquash, "no-root-squash", false, "let root of clients act as root, not as nobody, in directories of the command line")
	f.BoolVar(&t.trustLocal, "trust-local", false, "let callers on this machine name their user themselves, as callers on other machines do")
	f.BoolVar(&t.secure, "secure", false, "refuse callers of other machines with a source port from 1024 on (TCP only)")
	f.BoolVar(&t.manageGIDs, "manage-gids", false, "look up the groups of callers in the user database of this machine, and ignore the 16 that they send")
	f.BoolVar(&t.rootSquash, "root-squash", true, "")
	_ = f.MarkHidden("root-squash")
}

func (t *trust) apply(s nfsserver.Squash) nfsserver.Squash {
	t.noRootSquash = t.noRootSquash || !t.rootSquash
	s.NoRootSquash, s.TrustLocal, s.ReservedPort = t.noRootSquash, t.trustLocal, t.secure
	s.ManageGIDs = t.manageGIDs
	return s
}

// line summarizes callers' rights in one line; set has the exports.
func (t *trust) line(s *nfsserver.Squash, l *nfsserver.Service, set *exportSet) string {
	local, remote := "on this machine who the kernel says they are", ""
	if t.trustLocal {
		local = "on this machine whoever they say they are"
	}
	if reachable(l) {
		remote = ", from other machines whoever they say they are"
		if set.o.security.proven() {
			remote = ", from other machines who Kerberos says they are"
		} else if t.secure {
			remote += " (over TCP only from ports below 1024)"
		}
	}
	switch {
	case s.All && t.trustLocal:
		return fmt.Sprintf("callers: all act as uid %d", s.UID)
	case s.All && reachable(l):
		return fmt.Sprintf("callers: all act as uid %d; on this machine only root and uid %d are let in", s.UID, s.UID)
	case s.All:
		return fmt.Sprintf("callers: only root and uid %d of this machine are let in, and act as uid %d", s.UID, s.UID)
	}
	return fmt.Sprintf("callers: %s%s; %s", local, remote, t.rootWords(set))
}

// rootWords describes the mapping of root. The flags apply to the command line's exports; a file
// has its own rules per client.
func (t *trust) rootWords(set *exportSet) string {
	root := "root acts as nobody"
	if t.noRootSquash {
		root = "root is root"
	}
	switch {
	case set.file == "":
		return root
	case !set.open():
		return "root, and who else is squashed, acts as " + set.file + " says"
	}
	return root + " in what the command line exports, elsewhere as " + set.file + " says"
}

// warning returns a warning for servers that other machines can reach, or "".
func (t *trust) warning(s *nfsserver.Squash, l *nfsserver.Service) string {
	if !reachable(l) {
		return ""
	}
	if s.All {
		return fmt.Sprintf("whoever can reach the server over the network acts as uid %d (AUTH_SYS is not checked): see --addr", s.UID)
	}
	as := "any user but root"
	if t.noRootSquash {
		as = "any user, root included"
	}
	return fmt.Sprintf("whoever can reach the server over the network may act as %s (AUTH_SYS is believed): see --addr and --secure", as)
}

// reachable reports whether other machines can reach a port of the service.
func reachable(l *nfsserver.Service) bool {
	for _, a := range []net.Addr{l.TCPAddr, l.RDMAAddr, l.RoCEAddr} {
		switch a := a.(type) {
		case *net.TCPAddr:
			if !a.IP.IsLoopback() {
				return true
			}
		case *net.UDPAddr:
			if !a.IP.IsLoopback() {
				return true
			}
		}
	}
	return false
}
