// The list of mounts for DUMP. The list is advisory, because clients can leave without UMNT.

package nfsserver

import (
	"net"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
)

// maxMounts bounds the list; a new entry replaces the oldest.
const maxMounts = 1024

// A mountTable is the list of mounts, oldest first.
type mountTable struct {
	mu   sync.Mutex
	rows []mount3.Mount
}

// add records a mount, unless the list already has it.
func (t *mountTable) add(host, dir string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := mount3.Mount{Host: host, Dir: dir}
	if slices.Contains(t.rows, m) {
		return
	}
	if len(t.rows) == maxMounts {
		t.rows = slices.Delete(t.rows, 0, 1)
	}
	t.rows = append(t.rows, m)
}

func (t *mountTable) remove(host, dir string) (gone []string) {
	return t.drop(func(m mount3.Mount) bool { return m == mount3.Mount{Host: host, Dir: dir} })
}

func (t *mountTable) removeAll(host string) (gone []string) {
	return t.drop(func(m mount3.Mount) bool { return m.Host == host })
}

// drop removes matching rows and returns their directories.
func (t *mountTable) drop(match func(mount3.Mount) bool) (gone []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = slices.DeleteFunc(t.rows, func(m mount3.Mount) bool {
		if !match(m) {
			return false
		}
		gone = append(gone, m.Dir)
		return true
	})
	return gone
}

func (t *mountTable) list() []mount3.Mount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.rows)
}

// host returns the caller's address without the port.
func host(c *transport.Call) string {
	if c.Remote == nil {
		return "unknown"
	}
	a := c.Remote.String()
	if h, _, err := net.SplitHostPort(a); err == nil {
		return h
	}
	return a
}
