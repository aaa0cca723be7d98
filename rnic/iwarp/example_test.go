// The verbs alone, from listening to disconnecting.

package iwarp_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// One side registers memory and sends its address. The other side writes to it and reads from it
// without further action of the first, and sends a message when it is done.
func Example() {
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- serve(dev, l) }()

	cq := dev.NewCQ(16)
	pd := dev.AllocPD()
	qp, err := pd.CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()

	// Receives are posted in advance: a Send that finds none ends the connection.
	ad := make([]byte, 12)
	if err := qp.PostRecv(rnic.RecvWR{Buf: ad}); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := dev.Connect(ctx, qp, l.Addr().String(), rnic.ConnParams{}); err != nil {
		log.Fatal(err)
	}
	// A responder MUST NOT send first (RFC 5044 §7.1), so we ask.
	if err := qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("where?")}, Unsignaled: true}); err != nil {
		log.Fatal(err)
	}
	if _, err := wait(cq); err != nil {
		log.Fatal(err)
	}
	stag := rnic.STag(binary.BigEndian.Uint32(ad))
	base := binary.BigEndian.Uint64(ad[4:])

	// A Write takes a gather list. A Read after it returns the written bytes, because the peer
	// places in order. Its sink is registered memory here.
	back := make([]byte, 12)
	sink, err := pd.RegMR(back, rnic.LocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Dereg()
	err = qp.PostSend(
		rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{[]byte("hello "), []byte("memory")},
			RemoteSTag: stag, RemoteTO: base + 100, Unsignaled: true},
		rnic.SendWR{ID: 7, Op: rnic.OpRead, MR: sink, Length: uint32(len(back)), RemoteSTag: stag, RemoteTO: base + 100})
	if err != nil {
		log.Fatal(err)
	}
	wc, err := wait(cq)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("request %d read %d bytes: %s\n", wc.ID, wc.Len, back)

	// This Send also invalidates the peer's STag, so that we cannot access its memory any more (RFC
	// 5040 §3).
	bye := rnic.SendWR{Op: rnic.OpSendInvalidate, SGL: [][]byte{[]byte("bye")}, Invalidate: stag, Unsignaled: true}
	if err := qp.PostSend(bye); err != nil {
		log.Fatal(err)
	}
	if err := <-served; err != nil {
		log.Fatal(err)
	}
	// Output:
	// request 7 read 12 bytes: hello memory
	// bye, and the memory holds "hello memory"
}

// serve accepts one connection and grants it access to memory.
func serve(dev *rnic.Device, l rnic.Listener) error {
	req, err := l.Accept(context.Background())
	if err != nil {
		return err
	}
	cq := dev.NewCQ(16)
	pd := dev.AllocPD() // one for each peer: an STag is valid only on QPs of its PD
	qp, err := pd.CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
	if err != nil {
		return err
	}
	defer qp.Close()
	memory := make([]byte, 4096)
	mr, err := pd.RegMR(memory, rnic.RemoteRead|rnic.RemoteWrite)
	if err != nil {
		return err
	}
	defer mr.Dereg()
	msg := [2][16]byte{}
	if err := qp.PostRecv(rnic.RecvWR{ID: 0, Buf: msg[0][:]}, rnic.RecvWR{ID: 1, Buf: msg[1][:]}); err != nil {
		return err
	}
	if err := req.Accept(qp, rnic.ConnParams{}); err != nil {
		return err
	}
	if _, err := wait(cq); err != nil { // the client's question
		return err
	}
	ad := binary.BigEndian.AppendUint32(nil, uint32(mr.STag()))
	ad = binary.BigEndian.AppendUint64(ad, mr.Base())
	if err := qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{ad}, Unsignaled: true}); err != nil {
		return err
	}
	wc, err := wait(cq) // bye
	if err != nil {
		return err
	}
	if wc.Invalidated != mr.STag() {
		return fmt.Errorf("the memory is still the peer's to use")
	}
	fmt.Printf("%s, and the memory holds %q\n", msg[wc.ID][:wc.Len], memory[100:112])
	return nil
}

// wait returns the next completion. A program that needs low latency sets a handler instead
// (CQ.SetHandler).
func wait(cq *rnic.CQ) (rnic.WC, error) {
	var wc [1]rnic.WC
	for cq.Poll(wc[:]) == 0 {
		if err := cq.Wait(context.Background()); err != nil {
			return wc[0], err
		}
	}
	if wc[0].Status != rnic.WCSuccess {
		return wc[0], fmt.Errorf("status %d: %w", wc[0].Status, wc[0].QP.Err())
	}
	return wc[0], nil
}
