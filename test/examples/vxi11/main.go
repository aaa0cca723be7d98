// A controller for instruments with VXI-11: three channels, one of them a callback.

package main

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

//go:generate go run github.com/nfsrdma/nfsrdma/cmd/oncrpcgen core.x
//go:generate go run github.com/nfsrdma/nfsrdma/cmd/oncrpcgen channels.x

// discover asks all port mappers of the networks for instruments, until ctx ends or found returns
// false.
func discover(ctx context.Context, found func(at netip.Addr) (more bool)) error {
	to, err := transport.BroadcastAddrs(rpcbind.Port)
	if err != nil {
		return err
	}
	getport := &transport.Proc{Prog: rpcbind.Program, Vers: rpcbind.Version, Proc: rpcbind.ProcGetport, Name: "GETPORT"}
	core := &rpcbind.Mapping{Prog: VXI_CORE, Vers: CORE_V1, Prot: rpcbind.TCP}
	var port rpcbind.PortRes
	return (&transport.Broadcast{To: to}).Call(ctx, getport, core, &port, func(from netip.AddrPort) bool {
		return port.Port == 0 || found(from.Addr())
	})
}

// ask sends a question to an instrument, and returns its answer.
func ask(ctx context.Context, host, question string) (string, error) {
	i, err := dial(ctx, host, "inst0")
	if err != nil {
		return "", err
	}
	defer i.close(ctx)
	if err := i.write(ctx, []byte(question+"\n")); err != nil {
		return "", err
	}
	answer, err := i.read(ctx, 5*time.Second)
	return string(answer), err
}

// emulate serves an instrument at an address ("host:0") until it is interrupted. It registers the
// port with the port mapper if this user is allowed to.
func emulate(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	core, end, err := serve(addr)
	if err != nil {
		return err
	}
	fmt.Println("the core channel is at", core)
	if r, err := portmap.Register(ctx, portmap.Bindings(VXI_CORE, CORE_V1, "tcp", core)); err != nil {
		fmt.Println("not registered:", err)
	} else {
		defer r.Close(context.Background())
	}
	<-ctx.Done()
	return end(context.Background())
}

// main has three uses. "vxi11" prints the identity of each instrument in the networks. "vxi11 HOST
// QUESTION" prints a host's answer. "vxi11 serve ADDRESS" serves an emulated instrument.
func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		if err := emulate(os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if len(os.Args) == 3 {
		answer, err := ask(ctx, os.Args[1], os.Args[2])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(answer)
		return
	}
	err := discover(ctx, func(at netip.Addr) bool {
		identity, err := ask(ctx, at.String(), "*IDN?")
		fmt.Println(at, identity, err)
		return true
	})
	if err != nil {
		log.Fatal(err)
	}
}
