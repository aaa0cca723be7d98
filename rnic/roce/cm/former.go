// Connections of a process that was killed, which its successor ends.

package cm

import "net/netip"

// Former is an established connection as far as the next process at this address has to know it,
// should this one be killed: a peer that has nothing to send would wait for its answers, and find
// out after its program's own patience, a minute with Linux.
type Former struct {
	Peer                netip.Addr
	ID, RemoteID        uint32 // the communication IDs, ours first
	LocalQPN, RemoteQPN uint32
}

// Former is k, for EndFormer of another CM.
func (k *Conn) Former() Former {
	return Former{Peer: k.peer, ID: k.id, RemoteID: k.remoteID, LocalQPN: k.localQPN, RemoteQPN: k.remoteQPN}
}

// EndFormer tells the peer of a connection that another CM had at this address that it is over, as
// Disconnect does. It returns nil if f is no connection that there can have been, or its identifier
// is in use; otherwise Ended and Released follow.
func (c *CM) EndFormer(now Instant, f Former) *Conn {
	peer := f.Peer.Unmap().WithZone("")
	if !peer.IsValid() || peer.IsUnspecified() || peer.IsMulticast() || peer.Is4() != c.cfg.Addr.Is4() || f.ID == 0 || c.conns[f.ID] != nil || !validQPN(f.RemoteQPN) {
		return nil
	}
	k := &Conn{peer: peer, id: f.ID, remoteID: f.RemoteID, localQPN: f.LocalQPN, remoteQPN: f.RemoteQPN}
	c.conns[k.id] = k
	c.sendDREQ(now, k, nil)
	return k
}
