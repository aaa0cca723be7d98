// Command verbs transfers bytes between hosts by RDMA Write: an example of package rnic, over iWARP
// or RoCE.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nfsrdma/nfsrdma/rnic"
	_ "github.com/nfsrdma/nfsrdma/rnic/iwarp" // so that rnic.Open knows "iwarp"
	_ "github.com/nfsrdma/nfsrdma/rnic/roce"  // and knows "roce"
)

// limit is the maximum size that the receiver registers, in bytes. The peer's size is not
// trustworthy.
const limit = 1 << 30

// newQP returns a queue pair with a separate completion queue.
func newQP(dev *rnic.Device, pd *rnic.PD) (*rnic.QP, *rnic.CQ, error) {
	cq := dev.NewCQ(16)
	qp, err := pd.CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
	return qp, cq, err
}

// next waits for a completion. An unsuccessful status means that the queue pair has ended.
func next(ctx context.Context, cq *rnic.CQ) (rnic.WC, error) {
	var wc [1]rnic.WC
	for cq.Poll(wc[:]) == 0 {
		if err := cq.Wait(ctx); err != nil {
			return wc[0], err
		}
	}
	if wc[0].Status != rnic.WCSuccess {
		return wc[0], fmt.Errorf("%v: %w", wc[0], wc[0].QP.Err())
	}
	return wc[0], nil
}

// receive accepts one connection. The peer's private data contains a size; ours contains the STag
// and address of that much memory. The peer writes to it and returns it by a Send with Invalidate.
func receive(ctx context.Context, dev *rnic.Device, l rnic.Listener) ([]byte, error) {
	request, err := l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	var size uint64
	if private := request.PrivateData(); len(private) >= 8 {
		// over RoCE zeros follow the peer's data
		size = binary.BigEndian.Uint64(private)
	}
	if size == 0 || size > limit {
		return nil, errors.Join(fmt.Errorf("the peer asks for %d bytes", size), request.Reject(nil))
	}
	memory := make([]byte, size)
	pd := dev.AllocPD() // one per peer, so that it cannot access other peers' memory
	region, err := pd.RegMR(memory, rnic.RemoteWrite)
	if err != nil {
		return nil, err
	}
	defer region.Dereg()
	qp, cq, err := newQP(dev, pd)
	if err != nil {
		return nil, err
	}
	defer qp.Close()
	if err := qp.PostRecv(rnic.RecvWR{Buf: make([]byte, 16)}); err != nil {
		return nil, err
	}
	name := binary.BigEndian.AppendUint32(nil, uint32(region.STag()))
	name = binary.BigEndian.AppendUint64(name, region.Base())
	if err := request.Accept(qp, rnic.ConnParams{PrivateData: name}); err != nil {
		return nil, err
	}
	wc, err := next(ctx, cq)
	if err != nil {
		return nil, err
	}
	if wc.Invalidated != region.STag() {
		return nil, errors.New("the peer has not given the memory back")
	}
	if err := qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("received")}, Unsignaled: true}); err != nil {
		return nil, err
	}
	// sends all posted work; the data is complete whatever happens to the connection
	_ = qp.Disconnect(ctx)
	return memory, nil
}

// send writes data to a receiver's memory and waits until it has arrived. The completion of a Write
// or a Send is not enough: over iWARP it only means that TCP has the bytes.
func send(ctx context.Context, dev *rnic.Device, addr string, data []byte) error {
	qp, cq, err := newQP(dev, dev.AllocPD())
	if err != nil {
		return err
	}
	defer qp.Close()
	if err := qp.PostRecv(rnic.RecvWR{Buf: make([]byte, 16)}); err != nil {
		return err
	}
	size := binary.BigEndian.AppendUint64(nil, uint64(len(data)))
	if err := dev.Connect(ctx, qp, addr, rnic.ConnParams{PrivateData: size}); err != nil {
		return err
	}
	name := qp.PrivateData()
	if len(name) < 12 {
		return errors.New("the peer names no memory")
	}
	stag := rnic.STag(binary.BigEndian.Uint32(name))
	err = qp.PostSend(
		rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: stag, RemoteTO: binary.BigEndian.Uint64(name[4:]), Unsignaled: true},
		rnic.SendWR{Op: rnic.OpSendInvalidate, SGL: [][]byte{[]byte("done")}, Invalidate: stag, Unsignaled: true})
	if err != nil {
		return err
	}
	_, err = next(ctx, cq)
	return err
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: verbs receive|send iwarp|roce HOST:PORT    bytes are read from and written to standard input and output")
	}
	dev, err := rnic.Open(args[1], rnic.DeviceConfig{})
	if err != nil {
		return err
	}
	switch args[0] {
	case "receive":
		l, err := dev.Listen("tcp", args[2])
		if err != nil {
			return err
		}
		defer l.Close()
		data, err := receive(ctx, dev, l)
		if err == nil {
			_, err = os.Stdout.Write(data)
		}
		return err
	case "send":
		data, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		return send(ctx, dev, args[2], data)
	}
	return fmt.Errorf("%q is neither receive nor send", args[0])
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "verbs:", err)
		os.Exit(1)
	}
}
