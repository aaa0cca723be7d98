// Queue pair 1: what a packet of the general services looks like, and which are let in.

package cm

import (
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

const (
	defaultPKey = 0xffff
	pkeyBits    = 0x7fff // the rest is whether the sender is a full member

	// PacketLen is the UDP payload of a datagram without its ICRC: BTH, DETH and the MAD, which
	// needs no pad.
	PacketLen = packet.BTHLen + packet.DETHLen + mad.Len
)

// Admit checks the headers of a packet that is of good ICRC and for this port: a datagram of UD to
// queue pair 1 with its Q_Key, and the default P_Key in full or limited membership (IBA 9.6 Q_Key
// [IBU-180]). The sender's queue pair has to be 1 too, since that is where answers go.
func Admit(h *packet.Header) bool {
	return h.Opcode == packet.UDSendOnly && h.DestQP == mad.GSIQPN && h.DETH.QKey == mad.GSIQKey &&
		h.DETH.SrcQP == mad.GSIQPN && h.PKey&pkeyBits == defaultPKey&pkeyBits
}

// Append appends the PacketLen bytes of the packet that carries d. psn is its number: nobody looks
// at it, and it need not grow (IBA 9.8.3.1.1 [IBU-133]).
func (d *Datagram) Append(b []byte, psn uint32) []byte {
	h := packet.Header{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: defaultPKey, DestQP: mad.GSIQPN, PSN: psn},
		DETH: packet.DETH{QKey: mad.GSIQKey, SrcQP: mad.GSIQPN}}
	return append(h.Append(b), d.MAD[:]...)
}
