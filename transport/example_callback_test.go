// Example: a server that calls its client back, on a connection of its own.

package transport_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// word is one number, as arguments or results.
type word uint32

func (w *word) EncodeXDR(e *xdr.Encoder) { e.Uint32(uint32(*w)) }
func (w *word) DecodeXDR(d *xdr.Decoder) { *w = word(d.Uint32()) }

// watch serves WATCH(port): it calls NEWS of the caller's own server at that port. It connects to
// no other address than the caller's, because a caller must not make a server call others.
func watch(c *transport.Call) error {
	port := c.Args.Uint32()
	if err := c.ArgsErr(); err != nil {
		return err
	}
	from, ok := c.Remote.(*net.TCPAddr)
	if !ok || port == 0 || port > 0xffff {
		return transport.ErrGarbageArgs
	}
	ctx, cancel := context.WithTimeout(c.Ctx, 5*time.Second)
	defer cancel()
	addr := net.JoinHostPort(from.IP.String(), strconv.Itoa(int(port)))
	back, err := transport.DialTCP(ctx, addr, transport.ClientConfig{MaxRetries: -1})
	if err != nil {
		return err
	}
	defer back.Close()
	news := word(42)
	return back.Call(ctx, &transport.Proc{Prog: number + 1, Vers: version, Proc: 1, Name: "NEWS"}, &news, nil, nil, 0)
}

// Both ends serve a program and call the other's. A program that calls back often keeps the Client,
// and calls from a goroutine of its own.
func ExampleServer_callback() {
	null := transport.Procedure{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }}
	serve := func(p *transport.Program) (*transport.Server, *net.TCPAddr) {
		listener, err := transport.Listen("127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		s := transport.NewServer(transport.ServerConfig{}, p)
		go s.ServeTCP(listener)
		return s, listener.Addr().(*net.TCPAddr)
	}
	server, addr := serve(&transport.Program{Name: "WATCHER", Number: number, Version: version,
		Procs: []transport.Procedure{null, {Name: "WATCH", Run: watch}}})

	news := func(c *transport.Call) error {
		n := c.Args.Uint32()
		if err := c.ArgsErr(); err != nil {
			return err
		}
		fmt.Println("news:", n)
		return nil
	}
	mine, back := serve(&transport.Program{Name: "CALLBACK", Number: number + 1, Version: version,
		Procs: []transport.Procedure{null, {Name: "NEWS", Run: news}}})

	ctx := context.Background()
	client, err := transport.DialTCP(ctx, addr.String(), transport.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	port := word(back.Port)
	fmt.Println(client.Call(ctx, &transport.Proc{Prog: number, Vers: version, Proc: 1, Name: "WATCH"}, &port, nil, nil, 0))
	client.Close()
	server.Shutdown(ctx)
	mine.Shutdown(ctx)
	// Output:
	// news: 42
	// <nil>
}
