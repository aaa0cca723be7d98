// The other end: an instrument on the core and abort channels, which calls the controller back.

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// Codes of errors, beside errAborted.
const (
	errNotLinked  deviceError = 4
	errNoChannel  deviceError = 6
	errNoMemory   deviceError = 9
	errTimeout    deviceError = 15
	errHasChannel deviceError = 29
)

// Bounds, because anyone can call. A link lasts until it is destroyed.
const (
	maxLinks   = 16
	maxMessage = 64 << 10
	callTime   = 10 * time.Second // for a call back
)

// An emulator is an instrument without hardware: it answers *IDN?, and asks for service at SRQ.
type emulator struct {
	abortPort uint32

	mu    sync.Mutex // guards all below, and links' fields
	last  DeviceLink
	links map[DeviceLink]*link
	intr  *transport.Client // nil: there is no interrupt channel
}

// A link is a controller's session.
type link struct {
	message, answer []byte
	handle          []byte        // identifies requests for service; nil: these are off
	abort           chan struct{} // gets an element for an abort
}

func (s *emulator) CreateLink(_ *transport.Call, _ *CreateLinkParms, res *CreateLinkResp) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.links) == maxLinks {
		res.Error = int32(errNoMemory)
		return nil
	}
	s.last++
	s.links[s.last] = &link{abort: make(chan struct{}, 1)}
	*res = CreateLinkResp{Lid: s.last, AbortPort: s.abortPort, MaxRecvSize: 1024}
	return nil
}

// Write adds a part to the link's message. The last part runs the message.
func (s *emulator) Write(c *transport.Call, args *WriteParms, res *WriteResp) error {
	s.mu.Lock()
	l := s.links[args.Lid]
	if l == nil || len(l.message)+len(args.Data) > maxMessage {
		s.mu.Unlock()
		res.Error = int32(errNotLinked)
		if l != nil {
			res.Error = int32(errNoMemory)
		}
		return nil
	}
	l.message = append(l.message, args.Data...) // args.Data ends with the call
	var srq []byte
	if args.Flags&flagEnd != 0 {
		l.answer = nil
		switch string(bytes.TrimSpace(l.message)) {
		case "*IDN?":
			l.answer = []byte("EMULATED,GO,0,1\n")
		case "SRQ":
			srq = l.handle
		}
		l.message = nil
	}
	intr := s.intr
	s.mu.Unlock()
	res.Size = uint32(len(args.Data))
	if srq == nil || intr == nil {
		return nil
	}
	if err := c.Busy(); err != nil { // the call back waits
		return err
	}
	ctx, cancel := context.WithTimeout(c.Ctx, callTime)
	defer cancel()
	_ = NewIntrV1Client(intr).IntrSrq(ctx, &SrqParms{Handle: srq}) // a controller that is gone misses it
	return nil
}

// Read returns the answer, or waits for an abort.
func (s *emulator) Read(c *transport.Call, args *ReadParms, res *ReadResp) error {
	s.mu.Lock()
	l := s.links[args.Lid]
	if l != nil && len(l.answer) > 0 {
		n := min(len(l.answer), int(args.RequestSize))
		res.Data, l.answer = l.answer[:n], l.answer[n:]
		if res.Reason = 1; len(l.answer) == 0 {
			res.Reason = reasonEnd
		}
	}
	s.mu.Unlock()
	switch {
	case l == nil:
		res.Error = int32(errNotLinked)
		return nil
	case res.Reason != 0:
		return nil
	}
	if err := c.Busy(); err != nil {
		return err
	}
	timeout := time.NewTimer(time.Duration(args.IoTimeout) * time.Millisecond)
	defer timeout.Stop()
	select {
	case <-l.abort:
		res.Error = int32(errAborted)
	case <-timeout.C:
		res.Error = int32(errTimeout)
	case <-c.Ctx.Done():
		return c.Ctx.Err()
	}
	return nil
}

func (s *emulator) EnableSrq(_ *transport.Call, args *EnableSrqParms, res *int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[args.Lid]
	if l == nil {
		*res = int32(errNotLinked)
		return nil
	}
	if l.handle = nil; args.Enable {
		l.handle = append([]byte{}, args.Handle...)
	}
	return nil
}

func (s *emulator) DestroyLink(_ *transport.Call, lid DeviceLink, res *int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links[lid] == nil {
		*res = int32(errNotLinked)
	}
	delete(s.links, lid)
	return nil
}

// CreateIntrChan connects to the caller's host, and to no other.
func (s *emulator) CreateIntrChan(c *transport.Call, args *RemoteFunc, res *int32) error {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], args.HostAddr)
	to := netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(args.HostPort))
	from, ok := c.Remote.(*net.TCPAddr)
	if !ok || from.AddrPort().Addr().Unmap() != to.Addr() || args.Family != DEVICE_TCP || args.ProgNum != VXI_INTR || args.ProgVers != INTR_V1 {
		*res = int32(errNoChannel)
		return nil
	}
	if err := c.Busy(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Ctx, callTime)
	defer cancel()
	intr, err := transport.DialTCP(ctx, to.String(), transport.ClientConfig{MaxRetries: -1})
	if err != nil {
		*res = int32(errNoChannel)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.intr != nil {
		*res = int32(errHasChannel)
		return intr.Close()
	}
	s.intr = intr
	return nil
}

func (s *emulator) DestroyIntrChan(_ *transport.Call, res *int32) error {
	s.mu.Lock()
	intr := s.intr
	s.intr = nil
	s.mu.Unlock()
	if intr == nil {
		*res = int32(errNoChannel)
		return nil
	}
	return intr.Close()
}

// AbortDevice ends the link's running read, or else its next read.
func (s *emulator) AbortDevice(_ *transport.Call, lid int32, res *int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[lid]
	if l == nil {
		*res = int32(errNotLinked)
		return nil
	}
	select {
	case l.abort <- struct{}{}:
	default:
	}
	return nil
}

// serve serves an emulator on two ports of an address ("host:0") until end is called.
func serve(addr string) (core netip.AddrPort, end func(context.Context) error, err error) {
	s := &emulator{links: map[DeviceLink]*link{}}
	var servers []*transport.Server
	end = func(ctx context.Context) error {
		for _, server := range servers {
			if err := server.Shutdown(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for _, program := range []*transport.Program{NewAbortV1Program(s), NewCoreV1Program(s)} {
		l, err := transport.Listen(addr)
		if err != nil {
			return core, end, err
		}
		core = l.Addr().(*net.TCPAddr).AddrPort()
		if len(servers) == 0 {
			s.abortPort = uint32(core.Port())
		}
		server := transport.NewServer(transport.ServerConfig{}, program)
		servers = append(servers, server)
		go server.ServeTCP(l)
	}
	return core, end, nil
}
