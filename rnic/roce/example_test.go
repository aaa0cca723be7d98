// Examples: datagrams, and a reliable connection set up by other means.

package roce_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

const (
	qkey = 0x11111111 // required in datagrams
	grh  = 40         // bytes of the Global Routing Header before each received datagram
)

// loopback is the address of both ends in the examples. BindFor takes another address of loopback
// if UDP port 4791 of this one is in use by another process.
var loopback = netip.MustParseAddr("127.0.0.1")

// newQP creates and binds a queue pair, and returns its identity for the peer.
func newQP(dev *rnic.Device, service rnic.Service) (*rnic.QP, *rnic.CQ, roce.Identity) {
	cq := dev.NewCQ(16)
	qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{Service: service, SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
	if err != nil {
		log.Fatal(err)
	}
	id, err := roce.BindFor(qp, loopback, qkey)
	if err != nil {
		log.Fatal(err)
	}
	return qp, cq, id
}

// next waits for a completion, and returns it.
func next(cq *rnic.CQ) rnic.WC {
	var wc [1]rnic.WC
	for cq.Poll(wc[:]) == 0 {
		if err := cq.Wait(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	if wc[0].Status != rnic.WCSuccess {
		log.Fatal(wc[0], wc[0].QP.Err())
	}
	return wc[0]
}

// receiveDatagram creates a queue pair that receives one datagram, and returns its sender's QPN
// and text.
func receiveDatagram() (id roce.Identity, receive func() (uint32, string)) {
	qp, cq, id := newQP(roce.Open(rnic.DeviceConfig{}), rnic.UD)
	if err := roce.ConnectOutOfBand(qp, roce.OutOfBand{}); err != nil {
		log.Fatal(err)
	}
	if err := qp.PostRecv(rnic.RecvWR{Buf: make([]byte, grh+64)}); err != nil {
		log.Fatal(err)
	}
	return id, func() (uint32, string) {
		defer qp.Close()
		wc := next(cq)
		return wc.SrcQP, string(wc.Buf[grh:wc.Len])
	}
}

// A queue pair of unreliable datagrams (UD) has no peer: each message names its destination. The
// receiver learns the sender's queue pair from the completion.
func Example() {
	peer, receive := receiveDatagram()

	dev := roce.Open(rnic.DeviceConfig{})
	cq := dev.NewCQ(16)
	qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{Service: rnic.UD, SendCQ: cq, RecvCQ: cq, SQDepth: 8})
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()
	id, err := roce.BindFor(qp, peer.Addr, qkey)
	if err != nil {
		log.Fatal(err)
	}
	if err := roce.ConnectOutOfBand(qp, roce.OutOfBand{}); err != nil {
		log.Fatal(err)
	}
	to := &rnic.AddressHandle{Addr: peer.Addr, QPN: peer.QPN, QKey: qkey}
	text := [][]byte{[]byte("a datagram")}
	if err := qp.PostSend(rnic.SendWR{Op: rnic.OpSend, AH: to, SGL: text}); err != nil {
		log.Fatal(err)
	}
	from, got := receive()
	fmt.Printf("%s, from its sender: %v\n", got, from == id.QPN)
	// Output: a datagram, from its sender: true
}

// Two programs that exchange their Identities by other means, such as TCP, need no connection
// manager.
func ExampleConnectOutOfBand() {
	dev := roce.Open(rnic.DeviceConfig{})
	a, _, aID := newQP(dev, rnic.RC)
	defer a.Close()
	b, received, bID := newQP(dev, rnic.RC)
	defer b.Close()
	if err := b.PostRecv(rnic.RecvWR{Buf: make([]byte, 64)}); err != nil {
		log.Fatal(err)
	}
	if err := roce.ConnectOutOfBand(b, roce.OutOfBand{Peer: aID}); err != nil {
		log.Fatal(err)
	}
	if err := roce.ConnectOutOfBand(a, roce.OutOfBand{Peer: bID}); err != nil {
		log.Fatal(err)
	}
	if err := a.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("a message")}}); err != nil {
		log.Fatal(err)
	}
	wc := next(received)
	fmt.Printf("%s\n", wc.Buf[:wc.Len])
	// Output: a message
}
