// One end: a queue pair, its memory, and waits for its completions.

package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An end is one queue pair. It belongs to one goroutine.
type end struct {
	// set once
	o   *Options
	pd  *rnic.PD
	cq  *rnic.CQ
	qp  *rnic.QP
	id  roce.Identity
	ctx context.Context

	stop    context.CancelCauseFunc
	silent  *time.Timer  // ends ctx when next has waited for maxWait
	maxWait atomic.Int64 // a time.Duration

	wcs    [32]rnic.WC // polled
	at, n  int         // the next completion in wcs, and their number
	target rnic.AddressHandle

	out []byte // send buffer
	in  []byte // receive buffer, shared by all receives, because the content does not matter
}

// newEnd makes an unconnected queue pair. sends and recvs are its queue depths.
func newEnd(ctx context.Context, o *Options, sends, recvs int) (*end, error) {
	e := &end{o: o, pd: o.Device.AllocPD(), cq: o.Device.NewCQ(sends + recvs)}
	var err error
	e.qp, err = e.pd.CreateQP(rnic.QPConfig{Service: o.Service, SendCQ: e.cq, RecvCQ: e.cq, SQDepth: sends, RQDepth: recvs})
	if err != nil {
		return nil, err
	}
	e.ctx, e.stop = context.WithCancelCause(ctx)
	e.maxWait.Store(int64(o.silence()))
	e.silent = time.AfterFunc(o.silence(), func() { e.stop(errSilent) })
	e.silent.Stop()
	return e, nil
}

// minReceiveSize is a receive buffer's minimum size, so that a message with an unexpected size is
// reported as such.
const minReceiveSize = 64 << 10

// allocateBuffers allocates the buffers, once the message size is known.
func (e *end) allocateBuffers() {
	e.out = make([]byte, e.o.Size)
	for i := range e.out {
		e.out[i] = byte(i) + byte(i>>8)
	}
	e.in = make([]byte, e.prefix()+max(e.o.Size, minReceiveSize))
}

// bind gives the queue pair the selected address, or the address that leads to peer.
func (e *end) bind(peer netip.Addr) (err error) {
	if e.o.Local.IsValid() {
		e.id, err = roce.Bind(e.qp, e.o.Local, qkey)
	} else {
		e.id, err = roce.BindFor(e.qp, peer, qkey)
	}
	if err != nil {
		return err
	}
	return fitMTU(e.o, e.id.MTU)
}

// connect connects to the peer named in the exchange. reads is how many RDMA Reads the peer answers
// concurrently.
func (e *end) connect(peer roce.Identity, mtu, reads int) error {
	if e.id.Addr.Is4() != peer.Addr.Is4() {
		return fmt.Errorf("the peer's address is %v, this end's %v: choose a GID (-g, -x) of the same family there", peer.Addr, e.id.Addr)
	}
	e.target = rnic.AddressHandle{Addr: peer.Addr, QPN: peer.QPN, QKey: qkey}
	if e.o.Service == rnic.UD {
		peer = roce.Identity{}
	}
	return roce.ConnectOutOfBand(e.qp, roce.OutOfBand{Peer: peer, MTU: mtu, ORD: reads})
}

// close destroys the queue pair immediately.
func (e *end) close() {
	e.silent.Stop()
	e.stop(nil)
	e.qp.Close()
}

// disconnectTimeout limits the wait in finish for the peer's acknowledgments.
const disconnectTimeout = 5 * time.Second

// finish disconnects after all sends to the peer are acknowledged. It ignores errors, because the
// peer may have left.
func (e *end) finish() {
	ctx, cancel := context.WithTimeout(e.ctx, disconnectTimeout)
	defer cancel()
	_ = e.qp.Disconnect(ctx)
}

// awaitPeerClose waits for the peer to disconnect first, up to disconnectTimeout. Linux's rping
// fails its test if the connection ends before rping has handled the last message.
func (e *end) awaitPeerClose() {
	t := time.NewTimer(disconnectTimeout)
	defer t.Stop()
	select {
	case <-e.qp.Done():
	case <-e.ctx.Done():
	case <-t.C:
	}
}

// prefix returns the bytes in front of a message: a datagram's network header.
func (e *end) prefix() int {
	if e.o.Service == rnic.UD {
		return packet.GRHLen
	}
	return 0
}

// receives posts n receives. If the peer is not known yet, the first receive has a separate buffer:
// the network header with the sender is read while later messages are placed.
func (e *end) receives(n int) error {
	wrs := make([]rnic.RecvWR, n)
	for i := range wrs {
		wrs[i].Buf = e.in
	}
	if n > 0 && e.prefix() > 0 && !e.target.Addr.IsValid() {
		wrs[0].Buf = make([]byte, len(e.in))
	}
	return e.qp.PostRecv(wrs...)
}

// send posts an n-byte message.
func (e *end) send(n int) error {
	return e.wrap(e.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{e.out[:n]}, AH: &e.target}))
}

// next returns the next completion.
func (e *end) next() (rnic.WC, error) {
	for e.at == e.n {
		if e.at, e.n = 0, e.cq.Poll(e.wcs[:]); e.n > 0 {
			break
		}
		e.silent.Reset(time.Duration(e.maxWait.Load()))
		err := e.cq.Wait(e.ctx)
		e.silent.Stop()
		if err != nil {
			return rnic.WC{}, context.Cause(e.ctx)
		}
	}
	wc := e.wcs[e.at]
	e.at++
	if wc.Status != rnic.WCSuccess {
		return wc, e.wrap(fmt.Errorf("%v: %v", wc.Op, wc.Status))
	}
	return wc, nil
}

// limitWaits limits next's waits to d from now on; later messages are not expected. Any goroutine
// may call it.
func (e *end) limitWaits(d time.Duration) {
	e.maxWait.Store(int64(d))
	e.silent.Reset(d)
}

// message returns an error if a received message has the wrong length.
func (e *end) message(wc *rnic.WC) error {
	if n := int(wc.Len) - e.prefix(); n != e.o.Size {
		return fmt.Errorf("the peer sends messages of %d bytes: use --size %d, or its option for %d", n, n, e.o.Size)
	}
	return nil
}

// wrap adds the cause of the queue pair's end to an error that follows from that end.
func (e *end) wrap(err error) error {
	if err == nil {
		return nil
	}
	if cause := e.qp.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}
