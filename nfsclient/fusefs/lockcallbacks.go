// The port for the server's lock manager callbacks, registered with this machine's port mapper.

package fusefs

import (
	"context"
	"log/slog"
	"net"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/transport"
)

// An announcement registers a program's port with the port mapper until withdraw.
type announcement func(ctx context.Context, at netip.AddrPort) (withdraw func(), err error)

// listener returns a function that serves a program until stop; it fails if the port cannot be
// announced. Servers call over TCP, and some over UDP, independent of the NFS transport.
func (a announcement) listener(log *slog.Logger) func(ctx context.Context, p *transport.Program) (stop func(), err error) {
	if a == nil {
		return nil
	}
	return func(ctx context.Context, p *transport.Program) (stop func(), err error) { return a.listen(ctx, p, log) }
}

// listen opens a TCP port, and the same UDP port if it is free, then announces both.
func (a announcement) listen(ctx context.Context, p *transport.Program, log *slog.Logger) (stop func(), err error) {
	tcp, err := transport.ListenConfig{Logger: log}.Listen(":0")
	if err != nil {
		return nil, err
	}
	at, err := netip.ParseAddrPort(tcp.Addr().String())
	if err != nil {
		tcp.Close()
		return nil, err
	}
	srv := transport.NewServer(transport.ServerConfig{MaxConns: callbackConns, MaxRecord: callbackRecord, Logger: log}, p)
	go srv.ServeTCP(tcp)
	if udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)); err == nil {
		go srv.ServeUDP(udp)
	}
	end := func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastCalls)
		defer cancel()
		_ = srv.Shutdown(ctx)
	}
	withdraw, err := a(ctx, at)
	if err != nil {
		end()
		return nil, err
	}
	return func() {
		withdraw()
		end()
	}, nil
}

// fromServer reports whether a caller has the server's address.
func (f *fileSystem) fromServer(caller net.Addr) bool {
	at, err := netip.ParseAddrPort(caller.String())
	return err == nil && at.Addr().Unmap().WithZone("").String() == f.client.ServerAddress()
}

// Limits for callers of that port: a callback has a few hundred bytes and comes from one server.
const (
	callbackConns  = 16
	callbackRecord = 8 << 10
)
