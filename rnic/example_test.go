// Examples of the verbs, one by one, between two queue pairs of this process over iWARP.

package rnic_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// An end is one side of a connection, with the objects of its queue pair.
type end struct {
	dev *rnic.Device
	pd  *rnic.PD
	cq  *rnic.CQ
	qp  *rnic.QP
}

func newEnd() *end {
	dev := iwarp.Open(rnic.DeviceConfig{})
	e := &end{dev: dev, pd: dev.AllocPD(), cq: dev.NewCQ(16)}
	var err error
	if e.qp, err = e.pd.CreateQP(rnic.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, SQDepth: 8, RQDepth: 8}); err != nil {
		log.Fatal(err)
	}
	return e
}

// next waits for a completion, and returns it.
func (e *end) next() rnic.WC {
	var wc [1]rnic.WC
	for e.cq.Poll(wc[:]) == 0 {
		if err := e.cq.Wait(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	if wc[0].Status != rnic.WCSuccess {
		log.Fatal(wc[0], e.qp.Err())
	}
	return wc[0]
}

// connect returns two connected ends. Each side's private data goes to the other with the
// connection.
func connect(initiator, responder rnic.ConnParams) (a, b *end) {
	a, b = newEnd(), newEnd()
	l, err := b.dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		request, err := l.Accept(context.Background())
		if err == nil {
			err = request.Accept(b.qp, responder)
		}
		accepted <- err
	}()
	if err := a.dev.Connect(context.Background(), a.qp, l.Addr().String(), initiator); err != nil {
		log.Fatal(err)
	}
	if err := <-accepted; err != nil {
		log.Fatal(err)
	}
	return a, b
}

func (e *end) post(wrs ...rnic.SendWR) {
	if err := e.qp.PostSend(wrs...); err != nil {
		log.Fatal(err)
	}
}

// serveEcho accepts one connection, and sends the received message back.
func serveEcho() (addr string, stop func()) {
	e := newEnd()
	l, err := e.dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	if err := e.qp.PostRecv(rnic.RecvWR{Buf: make([]byte, 64)}); err != nil {
		log.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		request, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		if err := request.Accept(e.qp, rnic.ConnParams{}); err != nil {
			log.Fatal(err)
		}
		wc := e.next()
		e.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{wc.Buf[:wc.Len]}, Unsignaled: true})
	}()
	return l.Addr().String(), func() {
		l.Close()
		<-ended
		e.qp.Close()
	}
}

// Connect, send a message, and receive the answer. Receives are posted before they are needed.
func Example() {
	addr, stop := serveEcho()
	defer stop()

	ctx := context.Background()
	dev := iwarp.Open(rnic.DeviceConfig{})
	cq := dev.NewCQ(16)
	qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()
	if err := qp.PostRecv(rnic.RecvWR{ID: 1, Buf: make([]byte, 64)}); err != nil {
		log.Fatal(err)
	}
	if err := dev.Connect(ctx, qp, addr, rnic.ConnParams{}); err != nil {
		log.Fatal(err)
	}
	hello := [][]byte{[]byte("hello")}
	if err := qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: hello, Unsignaled: true}); err != nil {
		log.Fatal(err)
	}
	var wcs [1]rnic.WC
	for cq.Poll(wcs[:]) == 0 {
		if err := cq.Wait(ctx); err != nil {
			log.Fatal(err)
		}
	}
	if wcs[0].Status != rnic.WCSuccess {
		log.Fatal(qp.Err())
	}
	fmt.Printf("receive %d: %s\n", wcs[0].ID, wcs[0].Buf[:wcs[0].Len])
	// Output: receive 1: hello
}

// Each side's private data reaches the other with the connection. Programs exchange sizes and the
// names of memory in it.
func ExampleConnParams() {
	a, b := connect(rnic.ConnParams{PrivateData: []byte("version 1")}, rnic.ConnParams{PrivateData: []byte("version 2")})
	defer a.qp.Close()
	defer b.qp.Close()
	fmt.Printf("%s, %s\n", a.qp.PrivateData(), b.qp.PrivateData())
	// Output: version 2, version 1
}

// An RDMA Write places bytes in the peer's memory. The peer's program takes no part in it, and sees
// no completion.
func ExampleQP_PostSend_write() {
	a, b := connect(rnic.ConnParams{}, rnic.ConnParams{})
	defer a.qp.Close()
	defer b.qp.Close()

	memory := make([]byte, 16)
	region, err := b.pd.RegMR(memory, rnic.RemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer region.Dereg()
	if err := b.qp.PostRecv(rnic.RecvWR{Buf: make([]byte, 8)}); err != nil {
		log.Fatal(err)
	}
	// The peer learns STag and Base by a Send or by private data. The Send after the Write shows
	// that it was placed.
	a.post(
		rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{[]byte("gathered "), []byte("bytes")},
			RemoteSTag: region.STag(), RemoteTO: region.Base(), Unsignaled: true},
		rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("done")}, Unsignaled: true})
	b.next()
	fmt.Printf("%s\n", memory[:14])
	// Output: gathered bytes
}

// An RDMA Read fetches bytes of the peer's memory into a local region.
func ExampleQP_PostSend_read() {
	a, b := connect(rnic.ConnParams{}, rnic.ConnParams{})
	defer a.qp.Close()
	defer b.qp.Close()

	source, err := b.pd.RegMR([]byte("memory of the peer"), rnic.RemoteRead)
	if err != nil {
		log.Fatal(err)
	}
	defer source.Dereg()
	got := make([]byte, 18)
	sink, err := a.pd.RegMR(got, rnic.LocalWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Dereg()
	a.post(rnic.SendWR{ID: 7, Op: rnic.OpRead, MR: sink, Length: uint32(len(got)),
		RemoteSTag: source.STag(), RemoteTO: source.Base()})
	wc := a.next()
	fmt.Printf("request %d: %s\n", wc.ID, got)
	// Output: request 7: memory of the peer
}

// A Send with Invalidate returns memory to the peer: on receipt it invalidates the peer's STag.
func ExampleQP_PostSend_sendInvalidate() {
	a, b := connect(rnic.ConnParams{}, rnic.ConnParams{})
	defer a.qp.Close()
	defer b.qp.Close()

	region, err := b.pd.RegMR(make([]byte, 16), rnic.RemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer region.Dereg()
	if err := b.qp.PostRecv(rnic.RecvWR{Buf: make([]byte, 8)}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("valid:", region.Valid())
	a.post(rnic.SendWR{Op: rnic.OpSendInvalidate, Invalidate: region.STag(), SGL: [][]byte{[]byte("done")}, Unsignaled: true})
	wc := b.next()
	fmt.Println("valid:", region.Valid(), "invalidated:", wc.Invalidated == region.STag())
	// Output:
	// valid: true
	// valid: false invalidated: true
}

// A handler of a completion queue is the fastest way to get completions. It polls until nothing is
// left.
func ExampleCQ_SetHandler() {
	a, b := connect(rnic.ConnParams{}, rnic.ConnParams{})
	defer a.qp.Close()
	defer b.qp.Close()

	received := make(chan string, 1)
	b.cq.SetHandler(func() {
		var wcs [8]rnic.WC
		for n := b.cq.Poll(wcs[:]); n > 0; n = b.cq.Poll(wcs[:]) {
			for _, wc := range wcs[:n] {
				if wc.Op == rnic.OpRecv && wc.Status == rnic.WCSuccess {
					received <- string(wc.Buf[:wc.Len])
				}
			}
		}
	})
	if err := b.qp.PostRecv(rnic.RecvWR{Buf: make([]byte, 8)}); err != nil {
		log.Fatal(err)
	}
	a.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("hello")}, Unsignaled: true})
	fmt.Println(<-received)
	// Output: hello
}
