// Connections left by a killed process, which the next process ends.

package cm

import "net/netip"

// Former identifies an established connection for the next process at this address, in case this
// process is killed. The next process can then end the connection; otherwise an idle peer would
// wait until its program's timeout, a minute for Linux.
type Former struct {
	Peer                netip.Addr
	ID, RemoteID        uint32 // the communication IDs, this side's first
	LocalQPN, RemoteQPN uint32
}

// Former returns k's identity, for another CM's EndFormer.
func (k *Conn) Former() Former {
	return Former{Peer: k.peer, ID: k.id, RemoteID: k.remoteID, LocalQPN: k.localQPN, RemoteQPN: k.remoteQPN}
}

// EndFormer disconnects the peer of another CM's connection at this address, like Disconnect. It
// returns nil if f is invalid or its identifier is in use; otherwise Ended and Released follow.
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
