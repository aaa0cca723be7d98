// A custom ONC RPC program, served and called over RDMA and TCP.

package main

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	number, version = 0x20001234, 1 // of the program; 0x20000000 and above are free for local use
	limit           = 1 << 20       // maximum length of a text, in bytes
)

// A text is the argument and the result: one opaque item. Over RDMA it is not part of the message
// but is transferred directly between the memories.
type text struct{ data []byte }

func (t *text) EncodeXDR(e *xdr.Encoder) { e.Item(t.data) }
func (t *text) DecodeXDR(d *xdr.Decoder) { t.data = d.Item(limit) }

// upper implements the procedure, on the server.
func upper(c *transport.Call) error {
	var t text
	t.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	out := c.Buffer(len(t.data)) // from the server's budget; released when the reply has left
	if out == nil {
		return transport.ErrSystem
	}
	copy(out, bytes.ToUpper(t.data))
	c.Res.Item(out)
	return nil
}

func main() {
	server := transport.NewServer(transport.ServerConfig{}, &transport.Program{
		Name: "text", Number: number, Version: version,
		Procs: []transport.Procedure{
			0: {Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }},
			1: {Name: "UPPER", Idempotent: true, ArgItem: true, Run: upper},
		},
	})
	device := iwarp.Open(rnic.DeviceConfig{})
	rdma, err := device.Listen("tcp", "127.0.0.1:0")
	check(err)
	// net.Listen would use multipath TCP, which hides a socket's owner
	tcp, err := transport.Listen("127.0.0.1:0")
	check(err)
	go server.ServeRDMA(device, rdma)
	go server.ServeTCP(tcp)

	ctx := context.Background()
	overRDMA, err := transport.DialRDMA(ctx, device, rdma.Addr().String(), transport.ClientConfig{})
	check(err)
	overTCP, err := transport.DialTCP(ctx, tcp.Addr().String(), transport.ClientConfig{})
	check(err)
	proc := &transport.Proc{Prog: number, Vers: version, Proc: 1, Name: "UPPER", MaxReply: 4}
	for _, client := range []*transport.Client{overRDMA, overTCP} {
		in := text{bytes.Repeat([]byte("rdma "), 20_000)}
		sink := make([]byte, len(in.data)) // the result is placed here
		var out text
		check(client.Call(ctx, proc, &in, &out, sink, 0))
		fmt.Printf("%d bytes: %s…\n", len(out.data), sink[:9])
		client.Close()
	}
	check(server.Shutdown(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
