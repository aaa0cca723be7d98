// The verbs alone: one side lends memory, the other one writes into it.

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// open makes a QP that holds up to 8 work requests of each kind.
func open(device *rnic.Device) (*rnic.PD, *rnic.QP, *rnic.CQ) {
	pd, cq := device.AllocPD(), device.NewCQ(16)
	qp, err := pd.CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
	check(err)
	return pd, qp, cq
}

// wait returns the next completion.
func wait(cq *rnic.CQ) rnic.WC {
	var wc [1]rnic.WC
	for cq.Poll(wc[:]) == 0 {
		check(cq.Wait(context.Background()))
	}
	if wc[0].Status != rnic.WCSuccess {
		log.Fatal(wc[0].Status)
	}
	return wc[0]
}

// lend accepts a connection, tells by its private data where the peer may write,
// and waits for the message that says it has. The peer's Send takes the right back.
func lend(device *rnic.Device, l *rnic.Listener, done chan<- string) {
	request, err := l.Accept()
	check(err)
	pd, qp, cq := open(device)
	memory := make([]byte, 64)
	mr, err := pd.RegMR(memory, rnic.RemoteWrite)
	check(err)
	check(qp.PostRecv(rnic.RecvWR{ID: 1, Buf: make([]byte, 16)}))
	where := binary.BigEndian.AppendUint32(nil, uint32(mr.STag()))
	where = binary.BigEndian.AppendUint64(where, mr.Base())
	check(request.Accept(qp, rnic.ConnParams{PrivateData: where}))
	wc := wait(cq)
	done <- fmt.Sprintf("%q is here, our STag was invalidated: %v", memory[:12], wc.Invalidated == mr.STag())
	<-qp.Done()
	qp.Close()
}

func main() {
	device := rnic.Open(rnic.DeviceConfig{})
	l, err := device.Listen("tcp", "127.0.0.1:0")
	check(err)
	done := make(chan string)
	go lend(device, l, done)

	_, qp, cq := open(device)
	check(device.Connect(context.Background(), qp, l.Addr().String(), rnic.ConnParams{}))
	where := qp.PrivateData()
	stag := rnic.STag(binary.BigEndian.Uint32(where))
	check(qp.PostSend(
		rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{[]byte("hello, "), []byte("world")}, Unsignaled: true,
			RemoteSTag: stag, RemoteTO: binary.BigEndian.Uint64(where[4:])},
		rnic.SendWR{Op: rnic.OpSendInvalidate, SGL: [][]byte{[]byte("done")}, Invalidate: stag},
	))
	wait(cq)
	fmt.Println(<-done)
	qp.Close()
	l.Close()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
