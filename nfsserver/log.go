// Log lines about well-behaved clients: mounts, and squashed roots.

package nfsserver

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
)

// logBurst is the largest burst of similar lines; the long-term rate is one line a second.
const logBurst = 32

// viaName returns a call's transport for log lines.
func viaName(c *transport.Call) string {
	if c.RDMA {
		return "rdma"
	}
	return "tcp"
}

// logMount logs the result of a MNT. For a refusal by rules, decide logs a separate line with the
// reason.
func (s *Server) logMount(c *transport.Call, dir, export string, st mount3.Status) {
	fields := []any{"peer", c.Remote, "dir", dir, "transport", viaName(c), "vers", mount3.Version}
	if st != mount3.OK {
		fields = append(fields, "status", st.String())
		s.log.Warn("mount refused", fields...)
		return
	}
	fields = append(fields, "export", export)
	s.log.Info("mount", logBurst, fields...)
}

// logUmount logs directories removed from MOUNT's list.
func (s *Server) logUmount(c *transport.Call, dirs []string) {
	for _, dir := range dirs {
		s.log.Info("unmount", logBurst, "peer", c.Remote, "dir", dir, "transport", viaName(c))
	}
}

// seenSlots is the number of remembered client-export pairs. seenReach is the number of slots
// searched for a pair.
const (
	seenSlots = 1024
	seenReach = 8
)

// A seenTable remembers logged pairs of client and export. Each pair is one word, so the data path
// needs no lock and no allocation. In a full table a newer pair replaces an older pair, which can
// then be logged again, within the log's rate. The zero value is ready.
type seenTable struct {
	slots [seenSlots]atomic.Uint64
}

var seenSeed = maphash.MakeSeed()

// first reports whether the pair is new, and remembers a new pair.
func (t *seenTable) first(addr [16]byte, export uint32) bool {
	var b [20]byte
	copy(b[:], addr[:])
	binary.BigEndian.PutUint32(b[16:], export)
	h := maphash.Bytes(seenSeed, b[:]) | 1 // zero marks an empty slot
	at := h >> 32
	for i := range uint64(seenReach) {
		slot := &t.slots[(at+i)%seenSlots]
		if slot.Load() == 0 && slot.CompareAndSwap(0, h) {
			return true
		}
		if slot.Load() == h {
			return false
		}
	}
	return t.slots[at%seenSlots].Swap(h) != h
}

// logSquash logs once for each client and export that the client's root acts as another user,
// because users mistake the missing permissions for a fault.
func (s *Server) logSquash(c *transport.Call, may *rights) {
	addr, ok := addrOf(c.Remote)
	if !ok || may.export == nil || !s.squashed.first(addr.As16(), may.export.id) {
		return
	}
	s.log.Info("root of a client is squashed (root_squash): no_root_squash in the exports file, or --no-root-squash (Squash.NoRootSquash in Go), leaves it root", logBurst,
		"peer", c.Remote, "export", may.export.name, "as-uid", may.anon.UID, "as-gid", may.anon.GID, "transport", viaName(c))
}
