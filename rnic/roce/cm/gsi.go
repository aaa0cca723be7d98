// Queue pair 1: the format and admission of general services packets.

package cm

import (
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

const (
	defaultPKey = 0xffff
	pkeyBits    = 0x7fff // the remaining bit means full membership

	// PacketLen is a datagram's UDP payload length without the ICRC: BTH, DETH and the MAD, which
	// needs no pad.
	PacketLen = packet.BTHLen + packet.DETHLen + mad.Len
)

// Admit checks a valid packet's headers: the packet must be a UD datagram to queue pair 1 with the
// GSI's Q_Key and the default P_Key, full or limited membership (IBA 9.6 Q_Key [IBU-180]). The
// source queue pair must be 1 too, because answers go there.
func Admit(h *packet.Header) bool {
	return h.Opcode == packet.UDSendOnly && h.DestQP == mad.GSIQPN && h.DETH.QKey == mad.GSIQKey &&
		h.DETH.SrcQP == mad.GSIQPN && h.PKey&pkeyBits == defaultPKey&pkeyBits
}

// Append appends d's packet, PacketLen bytes. Receivers ignore psn, which need not increase (IBA
// 9.8.3.1.1 [IBU-133]).
func (d *Datagram) Append(b []byte, psn uint32) []byte {
	h := packet.Header{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: defaultPKey, DestQP: mad.GSIQPN, PSN: psn},
		DETH: packet.DETH{QKey: mad.GSIQKey, SrcQP: mad.GSIQPN}}
	return append(h.Append(b), d.MAD[:]...)
}
