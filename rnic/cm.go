// MPA start-up, what both roles share: reading a frame, and choosing the modes.

package rnic

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

var errPrivateData = fmt.Errorf("rnic: more than %d octets of private data", PrivateDataMax)

// readFrame reads one start-up frame. It judges the header octet by octet as it
// comes, and never reads past what a frame can be. rest is what came behind it.
// The caller has set the deadline, one for the whole frame.
func readFrame(c net.Conn, reply bool) (f mpa.Frame, rest []byte, err error) {
	buf := make([]byte, mpa.FrameMax)
	n := 0
	for {
		m, err := c.Read(buf[n:])
		n += m
		f, used, perr := mpa.ParseFrame(buf[:n], reply)
		switch {
		case perr != nil:
			return f, nil, perr
		case used > 0:
			return f, buf[used:n], nil
		case err == io.EOF && n > 0:
			return f, nil, mpa.ErrTruncated
		case err != nil:
			return f, nil, err
		}
	}
}

// depths are the local limits for a connection.
func (d *Device) depths(p *ConnParams) (ird, ord int, err error) {
	if len(p.PrivateData) > PrivateDataMax {
		return 0, 0, errPrivateData
	}
	if p.RTR&^RTRAny != 0 {
		return 0, 0, errRTRKind
	}
	ird, ord = d.cfg.MaxIRD, d.cfg.MaxORD
	if p.IRD > 0 {
		ird = min(p.IRD, ird)
	}
	if p.ORD > 0 {
		ord = min(p.ORD, ord)
	}
	return ird, ord, nil
}

// wantsCRC says whether we ask for CRCs ourselves.
func (d *Device) wantsCRC(peer bool) bool {
	return d.cfg.CRC == CRCOn || d.cfg.CRC == CRCAuto && peer
}

// idleOrErr refuses a QP that is connected or closed already.
func (qp *QP) idleOrErr() error {
	if qp.State() != StateIdle {
		return ErrState
	}
	return nil
}

// isTimeout tells a deadline from other failures.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
