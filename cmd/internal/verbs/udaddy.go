// udaddy and mckey: datagrams to a listener's queue pair and back, or to a multicast group.

package verbs

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// udaddy's and mckey's defaults and limits. All messages from one side are in flight together.
const (
	udaddySize       = 100
	udaddyIterations = 10
	udaddyMost       = 4096
)

// multicastQPN is the destination QPN of multicast messages.
const multicastQPN = 1<<24 - 1

// datagrams checks the options and makes an end.
func datagrams(ctx context.Context, o *Options) (*end, error) {
	if o.Size == 0 {
		o.Size = udaddySize
	}
	if o.Iterations == 0 {
		o.Iterations = udaddyIterations
	}
	o.Service = rnic.UD
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Iterations > udaddyMost {
		return nil, fmt.Errorf("--count %d: 1 to %d", o.Iterations, udaddyMost)
	}
	e, err := newEnd(ctx, o, o.Iterations, o.Iterations)
	if err == nil {
		e.allocateBuffers()
	}
	return e, err
}

// Udaddy runs udaddy's test against udaddy or itself: the client sends all messages, and after that
// the server sends as many.
func Udaddy(ctx context.Context, o Options) (*PingpongReport, error) {
	e, err := datagrams(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err = e.receives(o.Iterations); err != nil {
		return nil, err
	}
	if err = e.reach(ctx, rnic.ConnParams{}); err == nil {
		err = e.noteIdentity()
	}
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if !o.server() {
		e.target = e.qp.Peer()
		err = e.postAll()
	}
	if err == nil {
		err = e.collect(true)
	}
	if err == nil && o.server() {
		if err = e.postAll(); err == nil {
			err = e.collect(false)
		}
	}
	if err != nil {
		return nil, err
	}
	peer := roce.Identity{Addr: e.target.Addr, QPN: e.target.QPN}
	r := &PingpongReport{Common: common("udaddy", &o, e.id, peer, time.Since(start))}
	r.rates()
	e.finish()
	return r, nil
}

// Mckey runs mckey's test against mckey or itself: one end sends messages to a multicast group, the
// others have joined it.
func Mckey(ctx context.Context, o Options, group netip.Addr, send bool) (*PingpongReport, error) {
	if !group.IsMulticast() {
		return nil, fmt.Errorf("%v: not a multicast address, such as 239.1.2.3 or ff15::1:7", group)
	}
	e, err := datagrams(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err = e.member(group, send); err != nil {
		return nil, err
	}
	start := time.Now()
	if send {
		if err = e.postAll(); err == nil {
			err = e.collect(false)
		}
	} else {
		err = e.collect(true)
	}
	if err != nil {
		return nil, err
	}
	r := &PingpongReport{Common: common("mckey", &o, e.id, roce.Identity{Addr: group, QPN: multicastQPN}, time.Since(start))}
	r.Role, r.Bytes = map[bool]string{true: "sender", false: "receiver"}[send], r.Bytes/2
	r.rates()
	e.finish()
	return r, nil
}

// member makes an end that sends to a group, or an end that has joined the group and posted
// receives.
func (e *end) member(group netip.Addr, send bool) (err error) {
	if e.o.Local.IsValid() {
		_, err = roce.Bind(e.qp, e.o.Local, roce.UDPQKey)
	} else {
		_, err = roce.BindFor(e.qp, group, roce.UDPQKey)
	}
	if err == nil {
		err = e.noteIdentity()
	}
	if err == nil {
		err = roce.ConnectOutOfBand(e.qp, roce.OutOfBand{})
	}
	if err != nil || send {
		e.target = rnic.AddressHandle{Addr: group, QPN: multicastQPN, QKey: roce.UDPQKey}
		return err
	}
	if err = e.receives(e.o.Iterations); err != nil {
		return err
	}
	if _, err = e.qp.Join(group); err == nil && e.o.Waiting != nil {
		e.o.Waiting(net.UDPAddrFromAddrPort(netip.AddrPortFrom(group, roce.UDPPort)))
	}
	return err
}

// noteIdentity records the queue pair's number and checks whether messages fit.
func (e *end) noteIdentity() (err error) {
	if e.id, err = roce.IdentityOf(e.qp); err != nil {
		return err
	}
	return fitDatagram(e.o, e.id.MTU)
}

// postAll posts all messages. Each has the queue pair's number as immediate data, which Linux's
// programs use as the address for replies.
func (e *end) postAll() error {
	for range e.o.Iterations {
		wr := rnic.SendWR{Op: rnic.OpSendImmediate, SGL: [][]byte{e.out}, Immediate: uint64(e.id.QPN), AH: &e.target}
		if err := e.qp.PostSend(wr); err != nil {
			return e.wrap(err)
		}
	}
	return nil
}

// collect waits until all messages have arrived, or have been sent. The first arriving message sets
// the address for replies.
func (e *end) collect(receive bool) error {
	for n := 0; n < e.o.Iterations; {
		wc, err := e.next()
		if err != nil {
			return fmt.Errorf("after %d of %d messages: %w", n, e.o.Iterations, err)
		}
		if (wc.Op == rnic.OpRecv) != receive {
			continue
		}
		n++
		if !receive {
			continue
		}
		if err := e.message(&wc); err != nil {
			return err
		}
		if !e.target.Addr.IsValid() {
			e.target = rnic.AddressHandle{Addr: e.sender(wc.Buf), QPN: wc.SrcQP, QKey: roce.UDPQKey}
		}
	}
	return nil
}

// sender returns the source address from the network header of a message.
func (e *end) sender(b []byte) netip.Addr {
	if e.id.Addr.Is4() {
		return netip.AddrFrom4([4]byte(b[packet.GRHLen-8:]))
	}
	return netip.AddrFrom16([16]byte(b[8:]))
}
