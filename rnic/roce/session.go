// The session: the parameters agreed on by both ends, and the core's way to RTS with them.

package roce

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// A session has a connection's negotiated parameters.
type session struct {
	attrs    core.Attrs
	ird, ord int
	private  []byte
}

// sendsCredits reports whether a peer's acknowledges carry its receive count. A shared receive
// queue's count belongs to no single QP.
func sendsCredits(peer *cm.QP) bool { return peer.FlowControl && !peer.SRQ }

// Attributes required for each state change, by service.
var (
	toRTR = map[rnic.Service]core.Attr{
		rnic.RC: core.AttrPeer | core.AttrPathMTU | core.AttrDestQPN | core.AttrRQPSN | core.AttrMaxDestReads | core.AttrRNRTimer | core.AttrFlowControl,
		rnic.UC: core.AttrPeer | core.AttrPathMTU | core.AttrDestQPN | core.AttrRQPSN,
	}
	toRTS = map[rnic.Service]core.Attr{
		rnic.RC: core.AttrSQPSN | core.AttrTimeout | core.AttrMaxReads,
		rnic.UC: core.AttrSQPSN,
		rnic.UD: core.AttrSQPSN,
	}
)

// bringUp brings a core from INIT to RTS; after an error the core is in INIT again.
func (s *session) bringUp(qp *core.QP, service rnic.Service) error {
	s.attrs.MaxReads, s.attrs.MaxDestReads = s.ord, s.ird
	if err := qp.Modify(core.RTR, toRTR[service], s.attrs); err != nil {
		return err
	}
	return qp.Modify(core.RTS, toRTS[service], s.attrs)
}
