// MPA start-up, common to both roles: reading a frame, and choosing the modes.

package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

var errPrivateData = fmt.Errorf("rnic: more than %d bytes of private data", privateDataMax)

// readFrame reads one start-up frame. It checks the header byte by byte as the bytes come, and
// never reads more than the longest frame. rest holds the bytes after the frame. The caller has set
// one deadline for the whole frame.
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

// depths returns the local IRD and ORD limits for a connection.
func (p *provider) depths(c *rnic.ConnParams) (ird, ord int, err error) {
	if len(c.PrivateData) > privateDataMax {
		return 0, 0, errPrivateData
	}
	ird, ord = p.cfg.MaxIRD, p.cfg.MaxORD
	if c.IRD > 0 {
		ird = min(c.IRD, ird)
	}
	if c.ORD > 0 {
		ord = min(c.ORD, ord)
	}
	return ird, ord, nil
}

// wantsCRC reports whether our frame asks for CRCs. peer reports whether the peer's frame does.
func (p *provider) wantsCRC(peer bool) bool {
	return p.cfg.CRC == rnic.CRCOn || p.cfg.CRC == rnic.CRCStrict || p.cfg.CRC == rnic.CRCAuto && peer
}

// isTimeout reports whether a deadline has passed.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
