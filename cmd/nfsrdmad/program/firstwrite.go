// Lines at the start about a first client that cannot write or connect.

package program

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
)

// reachLine returns advice on how other machines can reach a server on loopback addresses, or "" if
// they can already. file is the exports file, or "".
func reachLine(s *nfsserver.Service, addr, file string) string {
	if reachable(s) {
		return ""
	}
	line := fmt.Sprintf("clients: on this machine only, as the address is %s; for other machines: --addr 0.0.0.0", addr)
	if file == "" {
		line += ", and --exports FILE to name them"
	}
	return line
}

// maxListed limits the directories or clients listed in a banner line.
const maxListed = 3

// firstWriteLines returns warnings about directories that only root may write, in exports that map
// the clients' root to another user. Without a change on the server the clients cannot write there.
// Directories with the same clients share their lines.
func (s *exportSet) firstWriteLines(names []string) (lines []string) {
	if !osfs.ActsAsCallers() {
		return nil // all callers act as the server's user
	}
	type group struct{ clients, cure string }
	var groups []group
	dirs, words := map[group][]string{}, map[group][]string{}
	for _, src := range s.sourcesOf(names) {
		if src.dir == nil {
			continue
		}
		g := group{s.squashedWriters(src.rules), "--no-root-squash"}
		info, err := os.Stat(src.at)
		if g.clients == "" || err != nil || !onlyRootWrites(info) {
			continue
		}
		if src.rules != nil {
			g.cure = "no_root_squash in " + s.file
		}
		if dirs[g] == nil {
			groups = append(groups, g)
		}
		dirs[g] = append(dirs[g], fmt.Sprintf("%s (mode %04o)", src.at, info.Mode().Perm()))
		words[g] = append(words[g], text.ShellWord(src.at))
	}
	for _, g := range groups {
		lines = append(lines,
			fmt.Sprintf("warning: only root may write in %s, and root of %s acts as another user: writes there fail with \"permission denied\"", listed(dirs[g]), g.clients),
			fmt.Sprintf("  to let a user write: chown USER %s; to let root of clients be root: %s", strings.Join(words[g][:min(len(words[g]), maxListed)], " "), g.cure))
	}
	return lines
}

// sourcesOf returns the sources of exports. It locks mu, because commands are already accepted and
// a reload can run concurrently.
func (s *exportSet) sourcesOf(names []string) (list []source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		list = append(list, s.from[name])
	}
	return list
}

// listed returns the first words of a list and the number of the other words.
func listed(words []string) string {
	if more := len(words) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:maxListed], ", "), more)
	}
	return strings.Join(words, ", ")
}

// squashedWriters returns the clients that may write in an export but act as another user than
// root: "clients" if all writers do, and "" if no writer does. rules is nil if the flags apply.
func (s *exportSet) squashedWriters(rules *exports.Export) string {
	switch {
	case s.o.readOnly, rules == nil && s.o.trust.noRootSquash:
		return ""
	case rules == nil:
		return "clients"
	}
	var squashed []string
	root := false
	for i := range rules.Clients {
		switch o := &rules.Clients[i].Options; {
		case o.ReadOnly:
		case o.NoRootSquash && !o.AllSquash, o.AnonUID == 0:
			root = true
		default:
			squashed = append(squashed, rules.Clients[i].Spec)
		}
	}
	if len(squashed) > 0 && !root {
		return "clients"
	}
	return listed(squashed)
}

// onlyRootWrites reports whether only root's user may write in a directory, and neither its group
// nor others. An ACL grants no more than the group bits.
func onlyRootWrites(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	const group, other = 0o020, 0o002
	return ok && st.Uid == 0 && st.Mode&other == 0 && st.Mode&group == 0
}
