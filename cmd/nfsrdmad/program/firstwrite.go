// The lines at start about a first client that cannot write, or cannot connect.

package program

import (
	"fmt"
	"os"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
)

// reachLine is how other machines reach a server that listens on loopback addresses only; "" for
// others.
func reachLine(s *nfsserver.Service, addr string) string {
	if reachable(s) {
		return ""
	}
	return fmt.Sprintf("clients: on this machine only, as the address is %s; for other machines: --addr 0.0.0.0, and --exports FILE to name them", addr)
}

// firstWriteLines warn of directories that only root may write, although root of clients acts as
// another user: without a change on the server no client can write there.
func (s *exportSet) firstWriteLines(names []string) (lines []string) {
	if !osfs.ActsAsCallers() {
		return nil // all callers act as the user of the server
	}
	for _, name := range names {
		src := s.from[name]
		if src.dir == nil || !s.writesAsOther(src.rules) {
			continue
		}
		info, err := os.Stat(src.at)
		if err != nil || !onlyRootWrites(info) {
			continue
		}
		lines = append(lines, fmt.Sprintf("warning: only root may write in %s (mode %04o), and root of clients acts as nobody: all writes fail with \"permission denied\"",
			src.at, info.Mode().Perm()))
		cure := "--no-root-squash"
		if src.rules != nil {
			cure = "no_root_squash in " + s.file
		}
		lines = append(lines, fmt.Sprintf("  to let a user write: chown USER %s; to let root of clients be root: %s", text.ShellWord(src.at), cure))
	}
	return lines
}

// writesAsOther reports whether an export is for writing, and squashes root of all clients to
// nobody. Its rules are nil where the flags say so.
func (s *exportSet) writesAsOther(rules *exports.Export) bool {
	if s.o.readOnly || rules == nil {
		return !s.o.readOnly && !s.o.trust.noRootSquash
	}
	writes := false
	for i := range rules.Clients {
		o := &rules.Clients[i].Options
		if o.NoRootSquash && !o.AllSquash || o.AnonUID != nfsserver.Nobody {
			return false
		}
		writes = writes || !o.ReadOnly
	}
	return writes
}

// onlyRootWrites reports whether neither another user nor a group but that of root may write in a
// directory. Its ACL gives no more than the permissions of the group.
func onlyRootWrites(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	const group, other = 0o020, 0o002
	return ok && st.Uid == 0 && st.Mode&other == 0 && st.Mode&group == 0
}
