// What the package is, and how a program uses it.

// Package rnic is the verbs of a software RNIC (an RDMA network adapter): devices, protection
// domains, memory regions, queue pairs and completion queues. Use it to write RDMA programs that
// need no hardware, kernel module or cgo. A provider speaks the wire protocol: rnic/iwarp speaks
// iWARP over TCP, rnic/roce RoCEv2 over UDP.
//
//	dev := iwarp.Open(rnic.DeviceConfig{})
//	cq := dev.NewCQ(16)
//	qp, err := dev.AllocPD().CreateQP(rnic.QPConfig{SendCQ: cq, RecvCQ: cq, SQDepth: 8, RQDepth: 8})
//	if err != nil {
//		log.Fatal(err)
//	}
//	if err := qp.PostRecv(rnic.RecvWR{ID: 1, Buf: make([]byte, 64)}); err != nil {
//		log.Fatal(err)
//	}
//	if err := dev.Connect(ctx, qp, addr, rnic.ConnParams{}); err != nil {
//		log.Fatal(err)
//	}
//	hello := [][]byte{[]byte("hello")}
//	if err := qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: hello, Unsignaled: true}); err != nil {
//		log.Fatal(err)
//	}
//
// The examples here have one verb each: RDMA Write, RDMA Read, Send with Invalidate, private data
// and handlers; rnic/roce shows datagrams. test/examples/verbs of this module is a whole program
// for both providers.
//
// # How to use it
//
// Open a Device of a provider. Make a CQ, a PD for each peer that must not touch the memory of
// another, and a QP with a send queue and a receive queue. Post receives, then Connect, or Listen
// and Accept. Register memory with RegMR, and send the peer its STag and Base in a Send or in the
// private data: its Writes and Reads name them. Post work with PostSend. The CQ reports the end of
// the work, to a handler (SetHandler, the quickest way) or to Wait and Poll. The memory of a work
// request belongs to the QP until its completion has been polled. Every request that was
// taken completes, flushed ones too, before Done is closed. Err is why a QP ended.
// Caps is what the provider can do: ask it, rather than assume.
//
// The peer is not authenticated and nothing is encrypted (RFC 5042): give remote rights for as
// long, and to as little memory, as the peer needs them.
//
// Providers use Provider, Endpoint, ProviderQP, SendQueue and the other names of provider.go.
// Programs need none of them.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package rnic

// # What a provider does
//
// provider.go is the seam. A QP checks what is posted and hands it to its Endpoint; the Endpoint
// takes receives, places what the peer sends after the checks of mr.go, completes work into
// the CQs, and says why the QP ends: all by the methods of ProviderQP. The first error
// wins (ProviderQP.Fail): placement and transmission stop, all posted work completes, oldest
// first, as done or flushed, and buffers are the program's again before Done is closed.
//
// # Locks
//
// In this order, each innermost part last: the locks of an Endpoint, MR.mu, recvQueue.mu, CQ.mu.
// Device.atomics comes before MR.mu. QP.mu (state) is taken with none of those held but an
// Endpoint's, and none is taken while it is held. No handler runs under a lock.
