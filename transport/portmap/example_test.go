// Examples: finding programs, registering one, and calling one on all machines.

package portmap_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// The program's number and version.
const number, version = 0x20001234, 1

// Find a program on another machine, and call it over UDP.
func ExampleDial() {
	ctx := context.Background()
	mapper, err := portmap.Dial(ctx, "udp", "server.example.org", transport.ClientConfig{CallTimeout: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer mapper.Close()
	at, err := mapper.Addr(ctx, number, version, rpcbind.NetUDP)
	if errors.Is(err, portmap.ErrNotRegistered) {
		log.Fatal("the server does not have this program")
	}
	if err != nil {
		log.Fatal(err)
	}
	client, err := transport.DialUDP(ctx, at.String(), transport.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Call(ctx, &transport.Proc{Prog: number, Vers: version, Name: "NULL"}, nil, nil, nil, 0))
}

// Register a program with this machine's rpcbind, list all, and remove the program.
func ExampleDialLocal() {
	ctx := context.Background()
	mapper, err := portmap.DialLocal(ctx)
	if errors.Is(err, portmap.ErrNone) {
		log.Fatal("start rpcbind, or serve a portmap.Table")
	}
	if err != nil {
		log.Fatal(err)
	}
	defer mapper.Close()
	mine := portmap.Bindings(number, version, "udp", netip.MustParseAddrPort("[::]:7000"))
	for i := range mine {
		err := mapper.Set(ctx, &mine[i])
		if errors.Is(err, portmap.ErrRefused) {
			log.Fatal("another server has this program: ", err)
		}
		defer mapper.Unset(ctx, &mine[i])
	}
	all, err := mapper.Dump(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range all {
		fmt.Println(b.Prog, b.Vers, b.Netid, b.Addr)
	}
}

// Find all machines that have a program: by the answer of each port mapper, and by calls that the
// port mappers forward to the program.
func ExampleBroadcast() {
	to, err := transport.BroadcastAddrs(rpcbind.Port)
	if err != nil {
		log.Fatal(err)
	}
	all := &transport.Broadcast{To: to, Resend: 500 * time.Millisecond}

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	getport := &transport.Proc{Prog: rpcbind.Program, Vers: rpcbind.Version, Proc: rpcbind.ProcGetport, Name: "GETPORT"}
	var res rpcbind.PortRes
	err = all.Call(ctx, getport, &rpcbind.Mapping{Prog: number, Vers: version, Prot: rpcbind.TCP}, &res, func(from netip.AddrPort) bool {
		if res.Port != 0 {
			fmt.Println(from.Addr(), "has the program at TCP port", res.Port)
		}
		return true // collect until ctx ends
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel = context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	null := &transport.Proc{Prog: number, Vers: version, Name: "NULL"}
	err = portmap.Broadcast(ctx, all, rpcbind.Version, null, nil, nil, func(at netip.AddrPort) bool {
		fmt.Println(at, "answers")
		return true
	})
	if err != nil {
		log.Fatal(err)
	}
}
