// Where the server's lock manager calls us: a port of this mount, that the port mapper of the machine is told of.

package fusefs

import (
	"context"
	"net"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/transport"
)

// listen serves callbacks until stop, if they can be announced. Servers call over TCP, and some over UDP, whatever
// the transport of NFS.
func (f *fileSystem) listen(ctx context.Context, callbacks *transport.Program) (stop func(), err error) {
	tcp, err := transport.Listen(":0")
	if err != nil {
		return nil, err
	}
	at, err := netip.ParseAddrPort(tcp.Addr().String())
	if err != nil {
		tcp.Close()
		return nil, err
	}
	srv := transport.NewServer(transport.ServerConfig{MaxConns: callbackConns, MaxRecord: callbackRecord}, callbacks)
	go srv.ServeTCP(tcp)
	if udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)); err == nil {
		go srv.ServeUDP(udp)
	}
	end := func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastUnlocks)
		defer cancel()
		_ = srv.Shutdown(ctx)
	}
	withdraw, err := f.opt.Announce(ctx, at)
	if err != nil {
		end()
		return nil, err
	}
	return func() {
		withdraw()
		end()
	}, nil
}

// What callers of that port can have: a callback is a few hundred bytes of one server.
const (
	callbackConns  = 16
	callbackRecord = 8 << 10
)
