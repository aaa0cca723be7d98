// MPA start-up as initiator (RFC 5044 §7.1.2, RFC 6581).

package rnic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// settleTime is how long Connect holds back the first FPDU; see ConnParams.Settle.
const settleTime = 2 * time.Millisecond

var (
	errNotEnhanced = term.New(term.MPAStartup, "the peer answered without the IRD/ORD block (RFC 6581)")
	errIRD         = term.New(term.MPAIRD, "the peer wants to read deeper than our IRD")
)

// Connect dials addr ("host:port", TCP), does MPA start-up as initiator and
// brings qp to RTS. ctx bounds all of it. A refusal of the peer's ULP is a *RejectError.
// A QP whose Connect fails is as it was and may be tried again, but not one whose RTR
// (ConnParams.RTR) did not get through: that one has ended.
func (d *Device) Connect(ctx context.Context, qp *QP, addr string, p ConnParams) error {
	if err := qp.idleOrErr(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.handshakeTimeout(connectTimeout))
	defer cancel()
	c, err := d.cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return d.initiate(ctx, qp, c, p)
}

// ConnectOver is Connect on a connection that is there already: an initiator is
// who sends the Request, not who dialed. The connection belongs to the QP afterwards,
// and is closed when there is an error.
func (d *Device) ConnectOver(ctx context.Context, qp *QP, c net.Conn, p ConnParams) error {
	if err := qp.idleOrErr(); err != nil {
		c.Close()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.handshakeTimeout(connectTimeout))
	defer cancel()
	return d.initiate(ctx, qp, c, p)
}

func (d *Device) initiate(ctx context.Context, qp *QP, c net.Conn, p ConnParams) error {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(past) })
	s, err := d.request(c, &p)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if err = qp.start(s); err != nil { // R6581-055
			err = refuseStream(s, &term.Error{Code: term.MPALocal, Err: err})
		}
	}
	if err != nil {
		c.Close()
		if ctx.Err() != nil && isTimeout(err) {
			err = fmt.Errorf("rnic: MPA start-up: %w", ctx.Err())
		}
		return err
	}
	settle(ctx, qp, p.Settle)
	if s.rtr != 0 {
		return qp.sayReady(ctx, s.opened)
	}
	return nil
}

// settle waits out the time that the peer may need to turn to FPDUs.
func settle(ctx context.Context, qp *QP, d time.Duration) {
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
	case <-qp.done:
	case <-ctx.Done():
	}
}

// request exchanges the frames and judges the Reply.
func (d *Device) request(c net.Conn, p *ConnParams) (*session, error) {
	ird, ord, err := d.depths(p)
	if err != nil {
		return nil, err
	}
	req := mpa.Frame{Markers: d.cfg.Markers, CRC: d.wantsCRC(false), Rev: mpa.Rev2, HasEnhanced: true,
		Enhanced: mpa.Enhanced{IRD: uint16(ird), ORD: uint16(ord)}, PrivateData: p.PrivateData}
	p.RTR.offer(&req.Enhanced)
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
	s := &session{conn: c, early: early, crc: req.CRC || rep.CRC, whole: req.CRC || rep.CRC, sendMarks: rep.Markers,
		recvMarks: req.Markers, ird: ird, ord: ord, private: rep.PrivateData}
	if o := rep.Enhanced.ORD; o != mpa.NotNegotiated && int(o) > ird { // R5040-275
		return nil, refuseStream(s, errIRD)
	}
	if i := rep.Enhanced.IRD; i != mpa.NotNegotiated {
		s.ord = min(ord, int(i))
	}
	if p.RTR != 0 {
		if s.rtr = p.RTR.choose(&rep.Enhanced, s.ord); s.rtr == 0 { // R6581-048
			return nil, refuseStream(s, errRTR)
		}
	}
	return s, nil
}

func rejected(rep *mpa.Frame) error {
	return &RejectError{PrivateData: append([]byte(nil), rep.PrivateData...),
		IRD: int(rep.Enhanced.IRD), ORD: int(rep.Enhanced.ORD)}
}

// refuseStream tells the responder by a Terminate that the stream cannot begin (RFC 6581 §8).
func refuseStream(s *session, err *term.Error) error {
	t := term.Terminate{Code: err.Code}
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpTerminate), QN: ddp.QNTerminate, MSN: 1}
	ulpdu := t.Append(h.Append(nil))
	var out []byte
	if s.sendMarks {
		out = new(mpa.MarkerSender).Append(nil, s.crc, ulpdu)
	} else {
		out = mpa.AppendFPDU(nil, s.crc, ulpdu)
	}
	if _, werr := s.conn.Write(out); werr != nil {
		return errors.Join(err, werr)
	}
	return err
}
