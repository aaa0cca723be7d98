// Examples: programs over UDP.

package transport_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// Serve a program over UDP, and call it. A datagram may be lost, so the client sends a call again
// until its reply comes. Without a server the kernel's ICMP message ends the call.
func ExampleDialUDP() {
	server := transport.NewServer(transport.ServerConfig{UDP: transport.UDPConfig{MaxMessage: 4096}}, &transport.Program{
		Name: "BLOB", Number: number, Version: version,
		Procs: []transport.Procedure{1: {Name: "FETCH", Idempotent: true, Run: fetch}},
	})
	socket, err := transport.ListenUDP("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.ServeUDP(socket)

	ctx := context.Background()
	client, err := transport.DialUDP(ctx, socket.LocalAddr().String(), transport.ClientConfig{Resend: 500 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	call := &transport.Proc{Prog: number, Vers: version, Proc: 1, Name: "FETCH", MaxReply: 4}
	sink := make([]byte, 64<<10)
	for _, size := range []uint32{1000, 5000, 64 << 10} {
		var b blob
		err := client.Call(ctx, call, blobArgs{size}, &b, sink, 0)
		fmt.Println(len(b.data), err)
	}
	server.Shutdown(ctx)
	err = client.Call(ctx, call, blobArgs{1}, new(blob), sink, 0)
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))
	// Output:
	// 1000 <nil>
	// 0 rpc: system error on the server (SYSTEM_ERR)
	// 0 rpc: system error on the server (SYSTEM_ERR)
	// true
}
