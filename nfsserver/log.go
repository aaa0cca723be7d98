// What is logged of clients that do nothing wrong: mounts, and roots that act as nobody.

package nfsserver

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
)

// logBurst is how many lines of one kind may come at once; in the long run it is one a second.
const logBurst = 32

// viaName is how a call has come.
func viaName(c *transport.Call) string {
	if c.RDMA {
		return "rdma"
	}
	return "tcp"
}

// logMount writes what became of a MNT. What rules refuse has a line of its own, which says why
// (decide).
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

// logUmount writes that directories are not in MOUNT's list any more.
func (s *Server) logUmount(c *transport.Call, dirs []string) {
	for _, dir := range dirs {
		s.log.Info("unmount", logBurst, "peer", c.Remote, "dir", dir, "transport", viaName(c))
	}
}

// seenSlots is how many pairs of client and export are remembered at most, seenReach in how many
// slots one is looked for.
const (
	seenSlots = 1024
	seenReach = 8
)

// A seenTable remembers pairs of client and export that were told of. It has one word for each, so
// that it needs neither a lock nor memory on the data path: where there are too many, a newer pair
// takes the place of an older, which is told of again, as often as the log allows. The zero value
// is ready.
type seenTable struct {
	slots [seenSlots]atomic.Uint64
}

var seenSeed = maphash.MakeSeed()

// first reports whether the pair is not known, and remembers it.
func (t *seenTable) first(addr [16]byte, export uint32) bool {
	var b [20]byte
	copy(b[:], addr[:])
	binary.BigEndian.PutUint32(b[16:], export)
	h := maphash.Bytes(seenSeed, b[:]) | 1 // zero is an empty slot
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

// logSquash writes that root of a client acts as somebody else, which users take for a fault: once
// for each client and export.
func (s *Server) logSquash(c *transport.Call, may *rights) {
	addr, ok := addrOf(c.Remote)
	if !ok || may.export == nil || !s.squashed.first(addr.As16(), may.export.id) {
		return
	}
	s.log.Info("root of a client is squashed (root_squash): no_root_squash in the exports file, or --no-root-squash (Squash.NoRootSquash in Go), leaves it root", logBurst,
		"peer", c.Remote, "export", may.export.name, "as-uid", may.anon.UID, "as-gid", may.anon.GID, "transport", viaName(c))
}
