// MPA start-up as initiator (RFC 5044 §7.1.2, RFC 6581).

package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

var (
	errNotEnhanced = term.New(term.MPAStartup, "the peer answered without the IRD/ORD block (RFC 6581)")
	errIRD         = term.New(term.MPAIRD, "the peer wants to read deeper than our IRD")
)

// Connect dials addr ("host:port", TCP) and does MPA start-up as initiator. After a failure the QP
// is unchanged and may be tried again, unless its RTR (ConnOptions.RTR) failed: then the QP has
// ended.
func (p *provider) Connect(ctx context.Context, ep rnic.Endpoint, addr string, cp rnic.ConnParams) error {
	ctx, cancel := context.WithTimeout(ctx, p.handshakeTimeout(connectTimeout))
	defer cancel()
	c, err := p.cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return p.initiate(ctx, ep.(*stream), c, cp)
}

// ConnectOver is Connect on an existing connection: the initiator sends the Request, even if the
// other side dialed.
func (p *provider) ConnectOver(ctx context.Context, ep rnic.Endpoint, c net.Conn, cp rnic.ConnParams) error {
	ctx, cancel := context.WithTimeout(ctx, p.handshakeTimeout(connectTimeout))
	defer cancel()
	return p.initiate(ctx, ep.(*stream), c, cp)
}

func (p *provider) initiate(ctx context.Context, s *stream, c net.Conn, cp rnic.ConnParams) error {
	opt, err := optionsOf(&cp)
	if err != nil {
		c.Close()
		return err
	}
	// Only a deadline wakes a read of a net.Conn; start clears the deadline. If stop comes too
	// late, the deadline may hit the stream just agreed on, so the connection is given up when ctx
	// has ended.
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(past) })
	ses, err := p.request(c, &cp, opt.RTR)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if err = s.start(ses); err != nil { // RFC 6581 §9.3 [R6581-055]
			err = refuseStream(ses, &term.Error{Code: term.MPALocal, Err: err})
		}
	}
	if err != nil {
		c.Close()
		if ctx.Err() != nil && isTimeout(err) {
			err = fmt.Errorf("rnic: MPA start-up: %w", ctx.Err())
		}
		return err
	}
	// RFC 5044 §7.1.2 lets the initiator send as soon as it has the Reply. But Linux siw sends the
	// Reply before its socket is switched to FPDUs, and can miss the wake-up of an early FPDU.
	holdBack(ctx, s, opt.Settle)
	if ses.rtr != 0 {
		return s.sayReady(ctx, ses.opened)
	}
	return nil
}

// holdBack waits as long as the peer might need to switch to FPDUs.
func holdBack(ctx context.Context, s *stream, d time.Duration) {
	if d == 0 {
		d = settleTime
	}
	if d < 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.q.QP().Done():
	case <-ctx.Done():
	}
}

// request exchanges the frames and checks the Reply.
func (p *provider) request(c net.Conn, cp *rnic.ConnParams, rtr RTR) (*session, error) {
	ird, ord, err := p.depths(cp)
	if err != nil {
		return nil, err
	}
	req := mpa.Frame{Markers: p.cfg.Markers, CRC: p.wantsCRC(false), Rev: mpa.Rev2, HasEnhanced: true,
		Enhanced: mpa.Enhanced{IRD: uint16(ird), ORD: uint16(ord)}, PrivateData: cp.PrivateData}
	rtr.offer(&req.Enhanced)
	if _, err := c.Write(mpa.AppendFrame(nil, &req)); err != nil {
		return nil, err
	}
	rep, early, err := readFrame(c, true)
	switch {
	case err != nil:
		return nil, err
	case rep.Reject:
		return nil, rejected(&rep)
	case !rep.HasEnhanced:
		return nil, errNotEnhanced
	}
	crc := req.CRC || rep.CRC
	s := &session{conn: c, early: early, ird: ird, ord: ord, private: rep.PrivateData,
		modes: core.Modes{CRC: crc, WholeTrailer: crc, SendMarkers: rep.Markers, RecvMarkers: req.Markers}}
	// The Reply is the end of the negotiation: there is no third frame in which to ask for less. So
	// we keep to the peer's IRD by a lower ORD.
	if o := rep.Enhanced.ORD; o != mpa.NotNegotiated && int(o) > ird { // RFC 6581 §9.1 [R5040-275]
		return nil, refuseStream(s, errIRD)
	}
	if i := rep.Enhanced.IRD; i != mpa.NotNegotiated {
		s.ord = min(ord, int(i))
	}
	if rtr != 0 {
		if s.rtr = rtr.choose(&rep.Enhanced, s.ord); s.rtr == 0 { // RFC 6581 §9.2 [R6581-048]
			return nil, refuseStream(s, errRTR)
		}
	}
	return s, nil
}

func rejected(rep *mpa.Frame) error {
	return &rnic.RejectError{PrivateData: append([]byte(nil), rep.PrivateData...),
		IRD: statedDepth(rep.Enhanced.IRD), ORD: statedDepth(rep.Enhanced.ORD)}
}

// refuseStream sends the responder a Terminate: the stream cannot begin (RFC 6581 §8).
func refuseStream(s *session, err *term.Error) error {
	t := term.Terminate{Code: err.Code}
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpTerminate), QN: ddp.QNTerminate, MSN: 1}
	ulpdu := t.Append(h.Append(nil))
	var out []byte
	if s.modes.SendMarkers {
		out = new(mpa.MarkerSender).Append(nil, s.modes.CRC, ulpdu)
	} else {
		out = mpa.AppendFPDU(nil, s.modes.CRC, ulpdu)
	}
	if _, werr := s.conn.Write(out); werr != nil {
		return errors.Join(err, werr)
	}
	return err
}
