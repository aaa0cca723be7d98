// Connecting without a connection manager: two programs exchange their QPs' identities by other
// means.

package roce

import (
	"fmt"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// An Identity is a QP as its peer must name it: the data that ibv_rc_pingpong and others exchange
// over TCP.
type Identity struct {
	Addr netip.Addr // the GID; an IPv4 address may be mapped
	QPN  uint32     // 24 bits
	PSN  uint32     // 24 bits: first PSN that the QP sends
	MTU  int        // the interface's path MTU in bytes, reported by Bind; ignored for a peer
}

// Bind binds this provider's idle QP to an address of this host, and returns the identity for the
// peer. Post receives before you pass it on. qkey is the Q_Key that a UD QP requires in datagrams;
// other services ignore it. Call ConnectOutOfBand next, or QP.Close, which undoes Bind.
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

// BindFor is Bind to this host's source address for packets to peer. If peer is on this host and
// another process has that address's port, it binds another loopback address.
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

// IdentityOf returns the identity of a bound QP, by Bind or by the connection manager.
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

// identity returns the QP's identity for the peer.
func (e *endpoint) identity(b *binding) Identity {
	return Identity{Addr: b.port.key.Addr(), QPN: b.qp.Num(), PSN: e.psn, MTU: b.mtu}
}

// OutOfBand has the parameters agreed on by two programs.
type OutOfBand struct {
	// Peer is the peer's QP; the zero value for UD, which has no single peer.
	Peer Identity

	// MTU is the path MTU in bytes, equal at both ends: 256, 512, 1024, 2048 or 4096; 0: the
	// interface's largest. UD always uses the interface's.
	MTU int

	// IRD is the number of the peer's Reads and atomics taken at once, ORD the number of this
	// side's outstanding Reads and atomics, at most the peer's IRD. 0: the Device's maximum. RC
	// only.
	IRD, ORD int

	// Timeout is the first answer timeout, 4.096 µs × 2^Timeout; the timeout doubles with each
	// consecutive retry, up to Retries times. Defaults for 0: 14 (67 ms), and 7. RC only.
	Timeout, Retries uint8
}

// ConnectOutOfBand brings a bound QP to RTS. Sends may be posted at once. If the peer is not ready
// to receive, the first packets are lost, and RC retransmits them. No message announces the end to
// the peer: RC detects the end by a timeout after some seconds, the other services never. After an
// error the QP is still bound.
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
	s := &session{ird: atMost(o.IRD, e.p.cfg.MaxIRD), ord: atMost(o.ORD, e.p.cfg.MaxORD)}
	s.attrs = core.Attrs{Peer: o.Peer.Addr.Unmap(), PathMTU: o.MTU, DestQPN: o.Peer.QPN, RQPSN: o.Peer.PSN, SQPSN: e.psn,
		Timeout: localTimeout, RetryCount: retryCount, RNRRetry: rnrRetry, RNRTimer: rnrTimer,
		// Credits are not negotiated here: the peer's first acknowledge shows whether it sends
		// any.
		ObeyCredits: true, GiveCredits: e.p.opt.FlowControl}
	if o.Timeout != 0 {
		s.attrs.Timeout = o.Timeout
	}
	if o.Retries != 0 {
		s.attrs.RetryCount = o.Retries
	}
	return e.establish(s, nil)
}

// atMost returns n limited by limit; 0 means limit.
func atMost(n, limit int) int {
	if n <= 0 || n > limit {
		return limit
	}
	return n
}
