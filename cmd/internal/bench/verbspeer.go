// rnic-bench's other end: memory to read and write, and an echo for every Send.

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

const (
	verbsMemory  = 1 << 20 // the peer region's bytes
	verbsMessage = rawMessage
	verbsDepth   = 8  // work requests in flight, and receives posted
	verbsDeep    = 64 // work requests in flight for many small messages
	verbsSmall   = 4 << 10
)

// A Mode selects MPA or RoCE and their options. RoCE always has CRCs and never markers.
type Mode struct {
	CRC     bool `json:"crc"`                    // messages have CRCs
	Markers bool `json:"markers"`                // the stream has MPA markers
	RoCE    bool `json:"roce,omitempty"`         // RoCE, else iWARP
	Lost    int  `json:"lost_percent,omitempty"` // RoCE: of the packets in each direction
}

// String returns the mode's name in the table.
func (m Mode) String() string {
	switch {
	case m.RoCE && m.Lost > 0:
		return fmt.Sprintf("RoCE, %d %% of packets lost", m.Lost)
	case m.RoCE:
		return "RoCE"
	}
	return fmt.Sprintf("CRC %s, markers %s", onOff(m.CRC), onOff(m.Markers))
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func (m Mode) open() *rnic.Device {
	switch {
	case m.RoCE && m.Lost > 0:
		return LossyRoCE(m.Lost)
	case m.RoCE:
		return roce.Open(rnic.DeviceConfig{})
	}
	cfg := rnic.DeviceConfig{CRC: rnic.CRCOff, Markers: m.Markers}
	if m.CRC {
		cfg.CRC = rnic.CRCOn
	}
	return iwarp.Open(cfg)
}

// VerbsPeer is a measurement's other end in mode m. It listens on loopback, writes its address to
// out in one line, and serves one connection until the connection or in ends.
func VerbsPeer(ctx context.Context, m Mode, in io.Reader, out io.Writer) error {
	dev := m.open()
	l, err := m.listen(dev)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		l.Close()
	}()
	if err = serveVerbs(ctx, dev, l); errors.Is(err, rnic.ErrClosed) {
		return nil
	}
	return err
}

// listen accepts connections on loopback. RoCE has one UDP port per address, so it uses an unused
// address.
func (m Mode) listen(dev *rnic.Device) (rnic.Listener, error) {
	if !m.RoCE {
		return dev.Listen("tcp", "127.0.0.1:0")
	}
	return dev.Listen("tcp", netip.AddrPortFrom(ownLoopback(), roceService).String())
}

// roceService is the service's port. Each process has a different address.
const roceService = 20049

// ownLoopback returns an address in 127.0.0.0/8 that other processes are unlikely to use.
func ownLoopback() netip.Addr {
	r := rand.Uint32()
	return netip.AddrFrom4([4]byte{127, 128 | byte(r)&63, byte(r >> 8), byte(r>>16) | 1})
}

// serveVerbs accepts one connection, announces its memory, and echoes until the peer disconnects.
func serveVerbs(ctx context.Context, dev *rnic.Device, l rnic.Listener) error {
	req, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	e, err := newVerbsEnd(dev)
	if err != nil {
		return err
	}
	defer e.qp.Close()
	mr, err := e.pd.RegMR(make([]byte, verbsMemory), rnic.RemoteRead|rnic.RemoteWrite)
	if err != nil {
		return err
	}
	where := binary.BigEndian.AppendUint32(nil, uint32(mr.STag()))
	where = binary.BigEndian.AppendUint64(where, mr.Base())
	msg := [][]byte{make([]byte, verbsMessage)}
	e.cq.SetHandler(func() {
		e.each(func(wc rnic.WC) {
			_ = e.qp.PostRecv(e.recv(wc.ID))
			_ = e.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: msg, Unsignaled: true})
		})
	})
	if err := req.Accept(e.qp, rnic.ConnParams{PrivateData: where}); err != nil {
		return err
	}
	<-e.qp.Done()
	return nil
}

// A verbsEnd is a measured connection's end.
type verbsEnd struct {
	pd   *rnic.PD
	cq   *rnic.CQ
	qp   *rnic.QP
	wcs  [verbsDeep]rnic.WC
	bufs [verbsDepth][grhRoom + verbsMessage]byte

	signals atomic.Bool // the handler signals completions while no goroutine drives the QP
}

// grhRoom is the space in bytes in front of a datagram, for the network header.
const grhRoom = 40

func newVerbsEnd(dev *rnic.Device) (*verbsEnd, error) { return newVerbsEndOf(dev, rnic.RC) }

func newVerbsEndOf(dev *rnic.Device, service rnic.Service) (*verbsEnd, error) {
	e := &verbsEnd{pd: dev.AllocPD(), cq: dev.NewCQ(2*verbsDeep + 2*verbsDepth)}
	var err error
	e.qp, err = e.pd.CreateQP(rnic.QPConfig{Service: service, SendCQ: e.cq, RecvCQ: e.cq, SQDepth: 2 * verbsDeep, RQDepth: verbsDepth,
		Waiting: e.signals.Load})
	if err != nil {
		return nil, err
	}
	for i := range uint64(verbsDepth) {
		if err := e.qp.PostRecv(e.recv(i)); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *verbsEnd) recv(id uint64) rnic.RecvWR { return rnic.RecvWR{ID: id, Buf: e.bufs[id][:]} }

// waitSome waits for at least one completion and returns their number. With drives the caller polls
// the connection during the wait, like a program without other work: small messages arrive sooner,
// but large messages are faster with two CPUs.
func (e *verbsEnd) waitSome(ctx context.Context, drives bool) (n int, err error) {
	if drives {
		e.qp.PollUntil(func() bool {
			n, err = e.each(func(rnic.WC) {})
			return n > 0
		})
	}
	if n > 0 {
		return n, err
	}
	// After a drive the receive loop rests. Its next check for input would come 10 to 20 ms later,
	// so let the handler signal completions.
	e.signals.Store(true)
	defer e.signals.Store(false)
	e.qp.EnsureReceiver()
	for n == 0 && err == nil { // another goroutine receives
		if err = e.cq.Wait(ctx); err == nil {
			n, err = e.each(func(rnic.WC) {})
		}
	}
	return n, err
}

// each polls until the CQ is empty, and calls f for each successful completion.
func (e *verbsEnd) each(f func(wc rnic.WC)) (n int, err error) {
	for k := e.cq.Poll(e.wcs[:]); k > 0; k = e.cq.Poll(e.wcs[:]) {
		for _, wc := range e.wcs[:k] {
			if wc.Status != rnic.WCSuccess {
				err = fmt.Errorf("completion status %d: %w", wc.Status, e.qp.Err())
				continue
			}
			f(wc)
		}
		n += k
	}
	return n, err
}
