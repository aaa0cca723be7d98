// Examples: a call's lists, the memory that it offers, and a chunk returned by the reply.

package chunks_test

import (
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A WRITE call has its data in a Read chunk: the data is taken out of the message, and the call's
// header names the memory from which the server reads it.
func Example() {
	var e xdr.Encoder
	e.Uint32(7) // a message: its XID, and the data as an item
	e.Item([]byte("the data of a WRITE"))
	call := chunks.Message{Stream: e.Bytes(), Items: e.Items()}

	data := chunks.Segment{Handle: 0x1234, Length: uint32(len(call.Items[0].Data)), Offset: 0x1000}
	lists := chunks.Lists{Read: []chunks.ReadSegment{{Position: call.Position(0), Segment: data}}}
	header := lists.Append(nil) // after the four fixed words of the header

	var got chunks.Lists
	if _, err := got.Parse(header); err != nil {
		log.Fatal(err)
	}
	for _, chunk := range got.ReadChunks() {
		fmt.Printf("%d bytes at position %d of the call, in region %#x\n", chunk.Len(), chunk.Position, chunk.Segments[0].Handle)
	}
	// Output: 19 bytes at position 8 of the call, in region 0x1234
}

// A READ call offers memory as a Write chunk. The reply returns the chunk with the written lengths.
func ExampleLists_AddWrite() {
	var offered chunks.Lists
	offered.AddWrite(chunks.Segment{Handle: 1, Length: 4096}, chunks.Segment{Handle: 2, Length: 4096})

	var reply chunks.Lists
	if _, err := reply.Parse(offered.Append(nil)); err != nil {
		log.Fatal(err)
	}
	data := [][]byte{make([]byte, 5000)}
	var sgl [][]byte
	for s := chunks.NewScatter(reply.Write[0], data); s.Next(); { // Next sets the lengths
		sgl = s.AppendTo(sgl[:0])
		fmt.Println("RDMA Write of", len(sgl[0]), "bytes to region", s.Segment.Handle)
	}
	placed, err := reply.Write[0].Returned(offered.Write[0])
	fmt.Println(placed, "bytes were placed,", err)
	// Output:
	// RDMA Write of 4096 bytes to region 1
	// RDMA Write of 904 bytes to region 2
	// 5000 bytes were placed, <nil>
}

// PlanCall chooses a call's form and the memory it offers for the reply.
func ExamplePlanCall() {
	sizes := chunks.CallSizes{
		Stream: 100, MaxReply: 128, SinkSegments: 1, ReplySegments: 1, // of a READ
		CallThreshold: 4096, ReplyThreshold: 4096,
	}
	for _, sink := range []int{512, 65536} {
		sizes.Sink = sink
		plan, err := chunks.PlanCall(sizes)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("READ of %d bytes: %v, offers %v\n", sink, plan.Form, plan.Offer)
	}
	// Output:
	// READ of 512 bytes: inline, offers nothing
	// READ of 65536 bytes: inline, offers Write chunk
}
