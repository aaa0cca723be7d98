// One end: a queue pair, its memory, and the wait for its completions.

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
	silent  *time.Timer  // ends ctx when next has waited for too long
	longest atomic.Int64 // how long that is, a time.Duration

	wcs    [32]rnic.WC // polled
	at, n  int         // those that were not looked at
	target rnic.AddressHandle

	out []byte // what is sent from
	in  []byte // what is received into: the content does not count, so receives have the same room
}

// newEnd makes a queue pair that is connected to nothing. sends and recvs are the depths of its queues.
func newEnd(ctx context.Context, o *Options, sends, recvs int) (*end, error) {
	e := &end{o: o, pd: o.Device.AllocPD(), cq: o.Device.NewCQ(sends + recvs)}
	var err error
	e.qp, err = e.pd.CreateQP(rnic.QPConfig{Service: o.Service, SendCQ: e.cq, RecvCQ: e.cq, SQDepth: sends, RQDepth: recvs})
	if err != nil {
		return nil, err
	}
	e.ctx, e.stop = context.WithCancelCause(ctx)
	e.longest.Store(int64(o.silence()))
	e.silent = time.AfterFunc(o.silence(), func() { e.stop(errSilent) })
	e.silent.Stop()
	return e, nil
}

// roomForMore is the least room of a receive, so that a message of another size than agreed on is told as that.
const roomForMore = 64 << 10

// makeRoom makes the memory for messages, now that it is known how long they are.
func (e *end) makeRoom() {
	e.out = make([]byte, e.o.Size)
	for i := range e.out {
		e.out[i] = byte(i) + byte(i>>8)
	}
	e.in = make([]byte, e.prefix()+max(e.o.Size, roomForMore))
}

// bind gives the queue pair the address that leads to peer, or the one that was asked for.
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

// connect connects to the peer that the exchange has named. reads is how many RDMA Reads it answers at once.
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

// close ends the queue pair at once.
func (e *end) close() {
	e.silent.Stop()
	e.stop(nil)
	e.qp.Close()
}

// farTime is how long the end waits in finish for what the peer has to acknowledge.
const farTime = 5 * time.Second

// finish ends the queue pair when all that the peer is owed has left. That the peer may have gone is no error then.
func (e *end) finish() {
	ctx, cancel := context.WithTimeout(e.ctx, farTime)
	defer cancel()
	_ = e.qp.Disconnect(ctx)
}

// left waits for the peer to leave first, for a time. Linux's rping, told that the connection is over before it has looked at the
// last message, takes its test for failed.
func (e *end) left() {
	t := time.NewTimer(farTime)
	defer t.Stop()
	select {
	case <-e.qp.Done():
	case <-e.ctx.Done():
	case <-t.C:
	}
}

// prefix is the room in front of a message: the network header of a datagram.
func (e *end) prefix() int {
	if e.o.Service == rnic.UD {
		return packet.GRHLen
	}
	return 0
}

// receives posts n of them. Where nobody is known to answer yet, the first has room of its own: its network header, which says who,
// is read while the next messages are placed.
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

// send posts a message of n bytes.
func (e *end) send(n int) error {
	return e.why(e.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{e.out[:n]}, AH: &e.target}))
}

// next is the next completion.
func (e *end) next() (rnic.WC, error) {
	for e.at == e.n {
		if e.at, e.n = 0, e.cq.Poll(e.wcs[:]); e.n > 0 {
			break
		}
		e.silent.Reset(time.Duration(e.longest.Load()))
		err := e.cq.Wait(e.ctx)
		e.silent.Stop()
		if err != nil {
			return rnic.WC{}, context.Cause(e.ctx)
		}
	}
	wc := e.wcs[e.at]
	e.at++
	if wc.Status != rnic.WCSuccess {
		return wc, e.why(fmt.Errorf("%v: %v", wc.Op, wc.Status))
	}
	return wc, nil
}

// lastWait has next wait for no longer than d from now on: what has not come then does not come. Any goroutine may call it.
func (e *end) lastWait(d time.Duration) {
	e.longest.Store(int64(d))
	e.silent.Reset(d)
}

// message checks the length of a message that came.
func (e *end) message(wc *rnic.WC) error {
	if n := int(wc.Len) - e.prefix(); n != e.o.Size {
		return fmt.Errorf("the peer sends messages of %d bytes: use --size %d, or its option for %d", n, n, e.o.Size)
	}
	return nil
}

// why adds the reason why the queue pair has ended to an error that follows from that.
func (e *end) why(err error) error {
	if err == nil {
		return nil
	}
	if cause := e.qp.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}
