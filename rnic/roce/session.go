// The session: what two ends have agreed on, and how the core is brought to RTS with it.

package roce

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// A session is one connection as agreed on.
type session struct {
	attrs    core.Attrs
	ird, ord int
	private  []byte
}

// Values of a connection that nobody has agreed on otherwise. An answer to us is overdue after
// 4.096 µs times two to the power of localTimeout (67 ms), and seven times in a row end a
// connection; a peer that has no receive posted is asked to wait for rnrTimer (code 12: 0.64 ms).
//
// The peer is asked for peerTimeout (268 ms) instead: it need not wait for longer each time, as we
// do, and other than an adapter this process can be stopped for a moment.
const (
	localTimeout = 14
	peerTimeout  = 16
	retryCount   = 7
	rnrRetry     = 7
	rnrTimer     = 12
)

// tellsCredits reports whether the acknowledges of a peer tell how many receives it has. Those of a
// shared queue are nobody's.
func tellsCredits(peer *cm.QP) bool { return peer.FlowControl && !peer.SRQ }

// Attributes that the steps of a QP's life need, by service.
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

// ready brings a core in INIT to RTS; after an error it is in INIT again.
func (s *session) ready(qp *core.QP, service rnic.Service) error {
	s.attrs.MaxReads, s.attrs.MaxDestReads = s.ord, s.ird
	if err := qp.Modify(core.RTR, toRTR[service], s.attrs); err != nil {
		return err
	}
	return qp.Modify(core.RTS, toRTS[service], s.attrs)
}
