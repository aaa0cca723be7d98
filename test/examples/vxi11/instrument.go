// An instrument: messages to it and from it, and aborts.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Flags of a message, and a bit of read_resp.reason.
const (
	flagEnd   = 8
	reasonEnd = 4
)

// chunk is the maximum size of one Read's part of an answer, in bytes.
const chunk = 64 << 10

// A deviceError is an error code of VXI-11.
type deviceError int32

func (e deviceError) Error() string { return fmt.Sprintf("instrument: error %d", int32(e)) }

// errAborted is the code of an operation that Abort has ended.
const errAborted deviceError = 23

// An instrument is a link to a VXI-11 instrument over three connections. This end opens the core
// channel and the abort channel. The instrument opens the interrupt channel to this end.
type instrument struct {
	core, abort *transport.Client
	channel     *CoreV1Client
	lid         DeviceLink
	most        int        // bytes of a write
	here, there netip.Addr // the addresses of both ends
	interrupts  *interrupts
}

// dial finds the instrument's port by its port mapper, and opens a link to device ("inst0").
func dial(ctx context.Context, host, device string) (*instrument, error) {
	mapper, err := portmap.Dial(ctx, "udp", host, transport.ClientConfig{})
	if err != nil {
		return nil, err
	}
	defer mapper.Close()
	at, err := mapper.Addr(ctx, VXI_CORE, CORE_V1, rpcbind.NetTCP)
	if err != nil {
		return nil, err
	}
	i := &instrument{there: at.Addr()}
	cfg := transport.ClientConfig{Service: "instrument", MaxRetries: -1, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			i.here = c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		}
		return c, err
	}}
	if i.core, err = transport.DialTCP(ctx, at.String(), cfg); err != nil {
		return nil, err
	}
	i.channel = NewCoreV1Client(i.core)
	link, err := i.channel.CreateLink(ctx, &CreateLinkParms{ClientId: 1, Device: device})
	if err == nil {
		err = failed(link.Error)
	}
	if err == nil {
		i.lid, i.most = link.Lid, int(max(link.MaxRecvSize, 1))
		i.abort, err = transport.DialTCP(ctx, net.JoinHostPort(at.Addr().String(), strconv.Itoa(int(link.AbortPort))), cfg)
	}
	if err != nil {
		i.core.Close()
		return nil, err
	}
	return i, nil
}

func failed(code int32) error {
	if code == 0 {
		return nil
	}
	return deviceError(code)
}

// write sends a message, in parts if it is long.
func (i *instrument) write(ctx context.Context, message []byte) error {
	for len(message) > 0 {
		p := WriteParms{Lid: i.lid, IoTimeout: 10_000, Data: message}
		if len(message) > i.most {
			p.Data = message[:i.most]
		} else {
			p.Flags = flagEnd
		}
		res, err := i.channel.Write(ctx, &p)
		if err == nil {
			err = failed(res.Error)
		}
		if err != nil {
			return err
		}
		if res.Size == 0 || int(res.Size) > len(p.Data) {
			return errors.New("instrument: it takes an impossible number of bytes")
		}
		message = message[res.Size:]
	}
	return nil
}

// read returns the whole answer.
func (i *instrument) read(ctx context.Context, timeout time.Duration) (answer []byte, err error) {
	for {
		res, err := i.channel.Read(ctx, &ReadParms{Lid: i.lid, RequestSize: chunk, IoTimeout: uint32(timeout.Milliseconds())})
		if err == nil {
			err = failed(res.Error)
		}
		if err != nil {
			return nil, err
		}
		answer = append(answer, res.Data...)
		if res.Reason&reasonEnd != 0 {
			return answer, nil
		}
	}
}

// abortNow ends the operation that runs on the link, such as a read.
func (i *instrument) abortNow(ctx context.Context) error {
	code, err := NewAbortV1Client(i.abort).AbortDevice(ctx, i.lid)
	return errors.Join(err, failed(code))
}

// close ends the link and its channels.
func (i *instrument) close(ctx context.Context) error {
	var errs []error
	if i.interrupts != nil {
		errs = append(errs, i.endInterrupts(ctx))
	}
	code, err := i.channel.DestroyLink(ctx, i.lid)
	return errors.Join(append(errs, err, failed(code), i.abort.Close(), i.core.Close())...)
}
