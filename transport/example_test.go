// Examples: an RPC program over TCP and RDMA, calls, authorization, and shutdown.

package transport_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// blobArgs requests size bytes; blob is the result, with its data as one item: over RDMA it is
// placed in the caller's memory without a copy.
type blobArgs struct{ size uint32 }

func (a blobArgs) EncodeXDR(e *xdr.Encoder) { e.Uint32(a.size) }

type blob struct{ data []byte }

func (b *blob) DecodeXDR(d *xdr.Decoder) { b.data = d.Item(1 << 20) }

// fetch serves the program's procedure FETCH.
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

// The program's number: 0x20000000 and up are free for local use.
const number, version = 0x20001234, 1

// Serve one program over both transports, and call it over both.
func Example() {
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

// serveBlobs serves the examples' program over RDMA. authorize may be nil.
func serveBlobs(authorize func(*transport.Call) oncrpc.AuthStat) (*transport.Server, *rnic.Device, net.Addr) {
	server := transport.NewServer(transport.ServerConfig{}, &transport.Program{
		Name: "BLOB", Number: number, Version: version, Authorize: authorize,
		Procs: []transport.Procedure{
			0: {Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }},
			1: {Name: "FETCH", Idempotent: true, Run: fetch},
		},
	})
	device := iwarp.Open(rnic.DeviceConfig{})
	listener, err := device.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.ServeRDMA(device, listener)
	return server, device, listener.Addr()
}

// MaxReply is the size of the largest result in bytes, without the sink's item. Over RDMA the
// server writes directly to the sink, so the item is in it when Call returns.
func ExampleClient_Call() {
	ctx := context.Background()
	server, device, addr := serveBlobs(nil)
	defer server.Shutdown(ctx)
	client, err := transport.DialRDMA(ctx, device, addr.String(), transport.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	proc := &transport.Proc{Prog: number, Vers: version, Proc: 1, Name: "FETCH", MaxReply: 4} // the item's length word
	sink := make([]byte, 10_000)
	var result blob
	if err := client.Call(ctx, proc, blobArgs{10_000}, &result, sink, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(result.data), "bytes, in the sink:", &result.data[0] == &sink[0])

	err = client.Call(ctx, proc, blobArgs{10_000}, &result, sink[:100], 0) // too small
	fmt.Println(errors.Is(err, transport.ErrNoRoom))
	// Output:
	// 10000 bytes, in the sink: true
	// true
}

// Shutdown takes no more calls, and waits for running ones: each gets its reply.
func ExampleServer_Shutdown() {
	ctx := context.Background()
	runs, end := make(chan struct{}), make(chan struct{})
	server := transport.NewServer(transport.ServerConfig{}, &transport.Program{
		Name: "SLOW", Number: number, Version: version,
		Procs: []transport.Procedure{
			0: {Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }},
			1: {Name: "WAIT", Run: func(c *transport.Call) error {
				close(runs)
				<-end // a long call also ends with c.Ctx, which ends with the connection
				return nil
			}},
		},
	})
	listener, err := transport.Listen("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.ServeTCP(listener)
	client, err := transport.DialTCP(ctx, listener.Addr().String(), transport.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	reply := make(chan error, 1)
	go func() {
		reply <- client.Call(ctx, &transport.Proc{Prog: number, Vers: version, Proc: 1, Name: "WAIT"}, nil, nil, nil, 0)
	}()
	<-runs
	go close(end)                                // during Shutdown
	if err := server.Shutdown(ctx); err != nil { // a ctx that ends first cuts off the calls
		log.Fatal(err)
	}
	fmt.Println("the call returned", <-reply)
	// Output: the call returned <nil>
}

// Authorize is called before each call except procedure 0. AUTH_SYS contains the client machine's
// claims: decide by Remote, or for a client on this machine also by Owner.
func ExampleProgram_authorize() {
	ctx := context.Background()
	server, device, addr := serveBlobs(func(c *transport.Call) oncrpc.AuthStat {
		if c.Cred.Flavor == oncrpc.FlavorSys && c.Cred.UID == 1000 {
			return oncrpc.AuthOK
		}
		return oncrpc.AuthTooWeak
	})
	defer server.Shutdown(ctx)
	proc := &transport.Proc{Prog: number, Vers: version, Proc: 1, Name: "FETCH", MaxReply: 4}
	for _, uid := range []uint32{1000, 1001} {
		config := transport.ClientConfig{Cred: transport.Cred{Flavor: oncrpc.FlavorSys, UID: uid}}
		client, err := transport.DialRDMA(ctx, device, addr.String(), config)
		if err != nil {
			log.Fatal(err)
		}
		var result blob
		err = client.Call(ctx, proc, blobArgs{3}, &result, make([]byte, 3), 0)
		fmt.Printf("user %d: %q %v\n", uid, result.data, err)
		client.Close()
	}
	// Output:
	// user 1000: "xxx" <nil>
	// user 1001: "" rpc: credentials refused (AUTH_TOOWEAK)
}
