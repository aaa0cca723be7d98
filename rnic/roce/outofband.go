// Connecting without a connection manager: two programs tell each other what their QPs are, by any
// way they have.

package roce

import (
	"fmt"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// An Identity is a QP as its peer has to name it: what ibv_rc_pingpong and the like exchange over
// TCP.
type Identity struct {
	Addr netip.Addr // the GID, that of an IPv4 address mapped or not
	QPN  uint32     // 24 bits
	PSN  uint32     // 24 bits: of the first packet that the QP sends
	MTU  int        // path MTU of its interface, in bytes, as Bind reports it; of a peer it does not count
}

// Bind gives an idle QP of this provider an address of this host, and returns what the peer has to
// be told. Receives should be posted before the peer is. Of a UD QP qkey is what datagrams have to
// carry to be taken; it counts for no other service. ConnectOutOfBand is next; QP.Close undoes Bind
// where it does not come to that.
func Bind(qp *rnic.QP, local netip.Addr, qkey uint32) (Identity, error) {
	e, ok := rnic.EndpointOf(qp).(*endpoint)
	switch {
	case !ok:
		return Identity{}, errForeignQP
	case qp.State() != rnic.StateIdle:
		return Identity{}, rnic.ErrState
	}
	b, err := e.bind(local, qkey)
	if err != nil {
		return Identity{}, err
	}
	return e.identity(b), nil
}

// BindFor is Bind to the address of this host that packets to peer come from. Where peer is this
// host itself, and another process has the port of that address, it is another address of loopback.
func BindFor(qp *rnic.QP, peer netip.Addr, qkey uint32) (Identity, error) {
	e, ok := rnic.EndpointOf(qp).(*endpoint)
	switch {
	case !ok:
		return Identity{}, errForeignQP
	case qp.State() != rnic.StateIdle:
		return Identity{}, rnic.ErrState
	}
	b, err := e.p.bindFor(e, peer.Unmap(), qkey)
	if err != nil {
		return Identity{}, err
	}
	return e.identity(b), nil
}

// IdentityOf is what Bind has returned, or would have of a QP that has been connected by the
// connection manager.
func IdentityOf(qp *rnic.QP) (Identity, error) {
	e, ok := rnic.EndpointOf(qp).(*endpoint)
	if !ok {
		return Identity{}, errForeignQP
	}
	b := e.bound.Load()
	if b == nil {
		return Identity{}, errNotBound
	}
	return e.identity(b), nil
}

// identity is the QP as its peer has to name it.
func (e *endpoint) identity(b *binding) Identity {
	return Identity{Addr: b.port.key.Addr(), QPN: b.qp.Num(), PSN: e.psn, MTU: b.mtu}
}

// OutOfBand is what two programs have agreed on.
type OutOfBand struct {
	// Peer is the peer's QP. UD has no one peer: it is the zero value there.
	Peer Identity

	// MTU is the path MTU in bytes, the same at both ends: 256, 512, 1024, 2048 or 4096; 0: the
	// largest that the interface has. UD takes it from the interface.
	MTU int

	// IRD is how many Reads and atomics of the peer's are taken at once, ORD how many of ours may
	// be outstanding, at most the peer's IRD. 0: the maximum of the device. RC only.
	IRD, ORD int

	// Timeout is when an answer is overdue, 4.096 µs times two to this power, the first time; the
	// second time in a row it takes twice as long, and so on, Retries times. 0: 14 (67 ms), and 7.
	// RC only.
	Timeout, Retries uint8
}

// ConnectOutOfBand brings a QP that was bound to RTS: it sends at once, so the peer has to be ready
// to receive, or the first packets are lost; RC sends them again. There is nobody to tell the peer
// of the end: RC finds out when an answer is overdue, after some seconds, and the others never.
// After an error the QP is bound as before.
func ConnectOutOfBand(qp *rnic.QP, o OutOfBand) error {
	e, ok := rnic.EndpointOf(qp).(*endpoint)
	if !ok {
		return errForeignQP
	}
	b := e.bound.Load()
	if b == nil {
		return errNotBound
	}
	if o.MTU == 0 {
		o.MTU = b.mtu
	}
	if e.cfg.Service != rnic.UD && !core.ValidMTU(o.MTU) {
		return fmt.Errorf("roce: path MTU %d: not one of 256, 512, 1024, 2048, 4096", o.MTU)
	}
	s := &session{ird: within(o.IRD, e.p.cfg.MaxIRD), ord: within(o.ORD, e.p.cfg.MaxORD)}
	s.attrs = core.Attrs{Peer: o.Peer.Addr.Unmap(), PathMTU: o.MTU, DestQPN: o.Peer.QPN, RQPSN: o.Peer.PSN, SQPSN: e.psn,
		Timeout: localTimeout, RetryCount: retryCount, RNRRetry: rnrRetry, RNRTimer: rnrTimer,
		ObeyCredits: true, GiveCredits: e.p.opt.FlowControl} // nobody declares them: the peer's first acknowledge shows whether there are any
	if o.Timeout != 0 {
		s.attrs.Timeout = o.Timeout
	}
	if o.Retries != 0 {
		s.attrs.RetryCount = o.Retries
	}
	return e.establish(s, nil)
}

// within is n, at most limit, which 0 stands for.
func within(n, limit int) int {
	if n <= 0 || n > limit {
		return limit
	}
	return n
}
