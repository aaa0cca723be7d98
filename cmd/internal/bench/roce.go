// Verbs over RoCE between two processes, compared with raw UDP.

package bench

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

// roceLost is the lossy network's loss, in percent of the packets in each direction.
const roceLost = 1

// RoCE measures RC on a lossless and on a lossy network, and UD. Raw UDP's ping-pong is measured
// before and after, and its stream in turns with the largest Writes and Reads.
func RoCE(ctx context.Context, d time.Duration) (*VerbsReport, error) {
	r := &VerbsReport{Depth: verbsDepth}
	var err error
	r.UDP, err = udpAround(ctx, d, func() error {
		for _, m := range []Mode{{CRC: true, RoCE: true}, {CRC: true, RoCE: true, Lost: roceLost}} {
			if err := r.measure(ctx, m, d); err != nil {
				return fmt.Errorf("%s: %w", m, err)
			}
		}
		return r.datagrams(ctx, d)
	})
	if err != nil {
		return nil, err
	}
	r.UDP.StreamMiBs = median(r.streams)
	r.ratios(r.UDP.StreamMiBs, float64(r.UDP.PingPongUs))
	return r, nil
}

const benchQKey = 0x11111111

// newDatagramEnd returns a UD QP ready to send.
func newDatagramEnd() (*verbsEnd, roce.Identity, error) {
	e, err := newVerbsEndOf(roce.Open(rnic.DeviceConfig{}), rnic.UD)
	if err != nil {
		return nil, roce.Identity{}, err
	}
	id, err := roce.Bind(e.qp, ownLoopback(), benchQKey)
	if err == nil {
		err = roce.ConnectOutOfBand(e.qp, roce.OutOfBand{})
	}
	if err != nil {
		e.qp.Close()
	}
	return e, id, err
}

// datagrams measures the datagrams' round trip.
func (r *VerbsReport) datagrams(ctx context.Context, d time.Duration) error {
	peer, err := child.Start(ctx, "_rnicpeer", "--datagrams")
	if err != nil {
		return err
	}
	defer peer.Stop()
	to := &rnic.AddressHandle{QKey: benchQKey}
	var addr string
	if _, err = fmt.Sscan(peer.Line, &addr, &to.QPN); err != nil {
		return err
	}
	if to.Addr, err = netip.ParseAddr(addr); err != nil {
		return err
	}
	e, _, err := newDatagramEnd()
	if err != nil {
		return err
	}
	defer e.qp.Close()
	h, err := (&verbsRun{verbsEnd: e, src: make([]byte, verbsMessage), to: to}).pingPong(ctx, d)
	if err == nil {
		r.latency(Mode{CRC: true, RoCE: true}, "datagram", h)
	}
	return err
}

// DatagramPeer is the other end for datagrams. It writes its address and QPN to out in one line,
// and answers its first sender until in ends.
func DatagramPeer(in io.Reader, out io.Writer) error {
	e, id, err := newDatagramEnd()
	if err != nil {
		return err
	}
	defer e.qp.Close()
	answer := rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, verbsMessage)}, Unsignaled: true}
	e.cq.SetHandler(func() {
		_, _ = e.each(func(wc rnic.WC) { // after a failure of the QP no answer is possible
			if answer.AH == nil { // the IPv4 header occupies the GRH space's last bytes
				answer.AH = &rnic.AddressHandle{Addr: netip.AddrFrom4([4]byte(e.bufs[wc.ID][grhRoom-8:])), QPN: wc.SrcQP, QKey: benchQKey}
			}
			_ = e.qp.PostRecv(e.recv(wc.ID))
			_ = e.qp.PostSend(answer)
		})
	})
	fmt.Fprintln(out, id.Addr, id.QPN)
	_, err = io.Copy(io.Discard, in)
	return err
}
