// RPC over RDMA, from both ends.

package rpcrdma_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A quoter answers each call with its words as an item: RPC over RDMA writes them to the client's
// memory.
type quoter string

func (q quoter) ServeRPC(r *rpcrdma.Request) (leads bool) {
	words := r.Buffer(len(q)) // from the budget, until the reply has left
	if words == nil {
		r.Drop()
		return true
	}
	copy(words, q)
	e := xdr.NewEncoder(r.Scratch())
	e.Uint32(binary.BigEndian.Uint32(r.Msg.Stream)) // XID
	e.Uint32(1)                                     // REPLY
	e.Item(words)
	if err := r.Reply(chunks.Message{Stream: e.Bytes(), Items: e.Items()}); err != nil {
		log.Print(err)
	}
	return true // it has not waited
}

// A call with its result placed in the caller's memory by RDMA Write.
func Example() {
	ctx := context.Background()
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		req, err := l.Accept(ctx)
		if err != nil {
			return
		}
		if _, err := rpcrdma.Accept(dev, req, rpcrdma.Config{Handler: quoter("a long reply, in the caller's memory")}); err != nil {
			log.Print(err)
		}
	}()

	c, err := rpcrdma.Dial(ctx, dev, l.Addr().String(), rpcrdma.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	k := c.NewCall()
	defer k.Release()
	e := xdr.NewEncoder(k.Scratch())
	e.Uint32(7) // XID
	e.Uint32(0) // CALL
	k.Msg = chunks.Message{Stream: e.Bytes()}
	k.MaxReply = 12               // XID, direction, length of the item
	k.Sink = make([]byte, 64<<10) // more than fits inline, so it is offered as a Write chunk
	if err := c.Do(ctx, k); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s (%d item, %v)\n", k.Reply.Items[0].Data, len(k.Reply.Items), &k.Reply.Items[0].Data[0] == &k.Sink[0])
	// Output: a long reply, in the caller's memory (1 item, true)
}

// A counter answers each call with the number of bytes in its items.
type counter struct{}

func (counter) ServeRPC(r *rpcrdma.Request) (leads bool) {
	e := xdr.NewEncoder(r.Scratch())
	e.Uint32(binary.BigEndian.Uint32(r.Msg.Stream)) // XID
	e.Uint32(1)                                     // REPLY
	size := 0
	for _, item := range r.Msg.Items {
		size += len(item.Data)
	}
	e.Uint32(uint32(size))
	if err := r.Reply(chunks.Message{Stream: e.Bytes()}); err != nil {
		log.Print(err)
	}
	return true
}

// A call with an argument too large to go inline: the responder reads it from the caller's memory
// by RDMA Read. The caller owns the memory again when Do returns.
func ExampleConn_Do() {
	ctx := context.Background()
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		req, err := l.Accept(ctx)
		if err != nil {
			return
		}
		if _, err := rpcrdma.Accept(dev, req, rpcrdma.Config{Handler: counter{}}); err != nil {
			log.Print(err)
		}
	}()

	c, err := rpcrdma.Dial(ctx, dev, l.Addr().String(), rpcrdma.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	k := c.NewCall()
	defer k.Release()
	e := xdr.NewEncoder(k.Scratch())
	e.Uint32(7)                   // XID
	e.Uint32(0)                   // CALL
	e.Item(make([]byte, 100<<10)) // named by a Read chunk
	k.Msg = chunks.Message{Stream: e.Bytes(), Items: e.Items()}
	k.MaxReply = 12
	if err := c.Do(ctx, k); err != nil {
		log.Fatal(err)
	}
	fmt.Println(binary.BigEndian.Uint32(k.Reply.Stream[8:]), "bytes were read")
	// Output: 102400 bytes were read
}
