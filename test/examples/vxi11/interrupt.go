// The interrupt channel: the instrument calls this program back, on a connection of its own.

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// interrupts serve VXI_INTR to one instrument.
type interrupts struct {
	server  *transport.Server
	handle  []byte        // random: only the instrument has it
	request chan struct{} // gets an element for a request; more requests join it
	served  chan error
}

// IntrSrq notes a request for service. It must not wait, because the instrument does.
func (s *interrupts) IntrSrq(_ *transport.Call, args *SrqParms) error {
	if !bytes.Equal(args.Handle, s.handle) {
		return &transport.AuthError{Stat: oncrpc.AuthTooWeak}
	}
	select {
	case s.request <- struct{}{}:
	default:
	}
	return nil
}

// onRequest starts the interrupt channel, and returns a channel that gets the instrument's
// requests for service.
func (i *instrument) onRequest(ctx context.Context) (<-chan struct{}, error) {
	listener, err := transport.Listen(netip.AddrPortFrom(i.here, 0).String())
	if err != nil {
		return nil, err
	}
	s := &interrupts{handle: make([]byte, 16), request: make(chan struct{}, 1), served: make(chan error, 1)}
	rand.Read(s.handle)
	program := NewIntrV1Program(s)
	program.Authorize = func(c *transport.Call) oncrpc.AuthStat {
		if from, ok := c.Remote.(*net.TCPAddr); !ok || from.AddrPort().Addr().Unmap() != i.there {
			return oncrpc.AuthTooWeak // another host
		}
		return oncrpc.AuthOK
	}
	s.server = transport.NewServer(transport.ServerConfig{MaxConns: 4}, program)
	go func() { s.served <- s.server.ServeTCP(listener) }()
	i.interrupts = s

	addr := i.here.As4()
	code, err := i.channel.CreateIntrChan(ctx, &RemoteFunc{
		HostAddr: binary.BigEndian.Uint32(addr[:]), HostPort: uint32(listener.Addr().(*net.TCPAddr).Port),
		ProgNum: VXI_INTR, ProgVers: INTR_V1, Family: DEVICE_TCP,
	})
	if err = errors.Join(err, failed(code)); err == nil {
		code, err = i.channel.EnableSrq(ctx, &EnableSrqParms{Lid: i.lid, Enable: true, Handle: s.handle})
		err = errors.Join(err, failed(code))
	}
	if err != nil {
		return nil, errors.Join(err, i.endInterrupts(ctx))
	}
	return s.request, nil
}

// endInterrupts ends the interrupt channel on both ends.
func (i *instrument) endInterrupts(ctx context.Context) error {
	s := i.interrupts
	i.interrupts = nil
	_, err := i.channel.DestroyIntrChan(ctx) // an instrument without the channel says so
	err = errors.Join(err, s.server.Shutdown(ctx))
	if end := <-s.served; !errors.Is(end, transport.ErrClosed) {
		err = errors.Join(err, end)
	}
	return err
}
