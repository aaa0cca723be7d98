// A program of one's own, served over TCP and RDMA alike.

package transport_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// blobArgs asks for size bytes; blob is the answer, whose data travels as one
// item: over RDMA it is placed in the caller's memory with no copy.
type blobArgs struct{ size uint32 }

func (a blobArgs) EncodeXDR(e *xdr.Encoder) { e.Uint32(a.size) }

type blob struct{ data []byte }

func (b *blob) DecodeXDR(d *xdr.Decoder) { b.data = d.Item(1 << 20) }

// fetch is the one procedure of the program.
func fetch(c *transport.Call) error {
	n := c.Args.Uint32()
	if err := c.ArgsErr(); err != nil {
		return err
	}
	buf := c.Buffer(int(min(n, 1<<20)))
	if buf == nil {
		return transport.ErrSystem
	}
	for i := range buf {
		buf[i] = 'x'
	}
	c.Res.Item(buf)
	return nil
}

func Example() {
	const number, version = 0x20001234, 1
	server := transport.NewServer(transport.ServerConfig{}, &transport.Program{
		Name: "BLOB", Number: number, Version: version,
		Procs: []transport.Procedure{
			0: {Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }},
			1: {Name: "FETCH", Idempotent: true, Run: fetch},
		},
	})
	device := iwarp.Open(rnic.DeviceConfig{})
	tcp, err := transport.Listen("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	rdma, err := device.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.ServeTCP(tcp)
	go server.ServeRDMA(device, rdma)

	ctx := context.Background()
	overTCP, err := transport.DialTCP(ctx, tcp.Addr().String(), transport.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	overRDMA, err := transport.DialRDMA(ctx, device, rdma.Addr().String(), transport.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	call := &transport.Proc{Prog: number, Vers: version, Proc: 1, Name: "FETCH", MaxReply: 4}
	for _, client := range []*transport.Client{overTCP, overRDMA} {
		sink := make([]byte, 64<<10)
		var b blob
		if err := client.Call(ctx, call, blobArgs{uint32(len(sink))}, &b, sink, 0); err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(b.data), string(sink[:3]))
		client.Close()
	}
	server.Shutdown(ctx)
	// Output:
	// 65536 xxx
	// 65536 xxx
}
