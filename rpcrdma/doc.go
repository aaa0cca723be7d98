// The package's story: the life of a READ and of a WRITE, credit by credit.

// Package rpcrdma is RPC-over-RDMA version 1 (RFC 8166) over the verbs of
// package rnic: connections on which RPC calls are made and served. It carries
// messages (package chunks) of any content. An upper layer chooses the items of a
// call or a result that may travel as chunks: it takes them out of the XDR stream.
// Use it for messages that are not ONC RPC version 2; package transport has that.
//
//	c, err := rpcrdma.Dial(ctx, dev, l.Addr().String(), rpcrdma.Config{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer c.Close()
//	k := c.NewCall()
//	defer k.Release()
//	k.Msg = chunks.Message{Stream: e.Bytes()}
//	k.MaxReply = 12               // XID, direction, length of the item
//	k.Sink = make([]byte, 64<<10) // more than fits inline, so it is offered as a Write chunk
//	if err := c.Do(ctx, k); err != nil {
//		log.Fatal(err)
//	}
//
// Accept makes a connection of a request that a listener has returned; its
// Config.Handler serves the calls.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package rpcrdma

// # Two roles
//
// A Conn is set-up, completions and the end. The requester makes calls, the responder
// serves them; each is a type with its own lock, credits and tables, in files named
// after it. A Call and a Request are each in one state at a time, drawn in
// requester_call.go and responder_request.go.
//
// # Who owns what
//
// A receive is posted without a buffer: it takes one from a pool that all
// connections share when a message arrives (rnic.BufferPool). Then the Call or Request whose
// message lies in it holds it (recvCtx), until it posts a receive again. A Call belongs to the
// goroutine that has it from NewCall to Release; a Request to the Handler, from ServeRPC to
// Reply, RejectChunks or Drop, and then to the send queue until the reply has left. Buffers
// of chunks come from pools (buffers.go) and are released with their Call or Request, on
// whichever way that ends: answered, refused, cancelled, or flushed with the
// connection. In steady state nothing is allocated.
//
// Only the requester exposes memory, and only for one RPC at a time: each region
// gets a new STag when the call is made and has lost it when Do returns. Only the
// responder issues RDMA Reads and Writes.
//
// # The life of a READ
//
//	requester                                        responder
//	1 NewCall; the call is encoded into Scratch;
//	  Sink is where the data is placed
//	2 Do takes a credit, in order of arrival
//	3 prepare: the reply might not fit inline, so
//	  the sink is registered for RemoteWrite and
//	  offered as a Write chunk
//	4 header and call leave as one Send  ----------> 5 receive: parse, check; a Request is taken
//	                                                 6 ServeRPC decodes; Buffer gives room within
//	                                                   the Budget, which is filled from the file
//	                                                 7 Reply: the receive buffer is posted again;
//	                                                   only then may the credit be used again
//	                   <---- RDMA Write, the data -- 8 the item goes to the Write chunk where it
//	                   <---- Send with Invalidate -- 9 lies, the reply follows in the same batch
//	10 receive: matched by XID, the chunks held against
//	   what was offered; the grant moves the window;
//	   Do is woken                                   10 the Send has left: buffer and budget are released
//	11 Do invalidates what the peer has not, and
//	   returns: Reply's item is the sink
//	12 Release: receive buffer posted, credit given
//	   to the next call in line
//
// # The life of a WRITE
//
//	1-2 as above; the data is an item of Msg
//	3 prepare: the call does not fit inline, so the
//	  item is registered for RemoteRead and named by
//	  a Read chunk at its Position
//	4 header and the rest of the call leave -------> 5 receive: parse, check sizes and Positions
//	                                                 6 queuePull: wait for the Budget, if need be
//	                  <---- RDMA Read Request ------ 7 startPull: one sink for all chunks
//	  (the RNIC answers by itself) ----------------> 8 the last Read completes: the sink is fenced,
//	                                                   assemble puts the item to its offset, ServeRPC
//	                  <---- Send with Invalidate --- 9 Reply
//	10-12 as above
//
// A call or reply that fits neither inline nor with its items taken out travels
// whole: the call in a Position-zero Read chunk, the reply in a Reply chunk.
//
// # When it does not go well
//
// A call that cannot be taken is answered RDMA_ERROR and never served; a reply
// that cannot be taken is dropped, and its call left to the caller's context. A
// context that ends takes Sink and items away from the peer at once: buffers of
// ours take their place, and stay, as XID and credit do, until the late reply. Faults of
// RDMA end the connection, as does a peer that overdraws its credits or lets all
// work stand still; then every Call fails with a ClosedError.
