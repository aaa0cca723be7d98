// Broadcast calls: one call as a datagram to many servers, and their replies.

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// maxAnswers bounds the sources of replies to one broadcast.
const maxAnswers = 4096

// A Broadcast is a call to all servers that receive a datagram.
type Broadcast struct {
	// To has broadcast addresses (BroadcastAddrs), multicast addresses or those of hosts.
	To []netip.AddrPort
	// Auth is the caller's credential; nil: AUTH_NONE. It MUST NOT have a Session.
	Auth *Auth
	// Resend is how long to wait before the call is sent again, with the same XID; the wait doubles
	// each time. 0: 1 s.
	Resend time.Duration
}

// A broadcastSocket is a socket for a broadcast: a *net.UDPConn.
type broadcastSocket interface {
	ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error)
	SetReadDeadline(t time.Time) error
}

// Call sends the call, and decodes each successful reply into res. Then it calls each with the
// server's address and port, once for each server, on the caller's goroutine. Call ends without an
// error when each returns false, or when ctx ends, so ctx needs a deadline. It ignores servers'
// errors, and replies that do not decode, because other servers may have the program. Call fails if
// the call can be sent to none of the addresses.
//
// Anyone may send a reply, under any address.
func (b *Broadcast) Call(ctx context.Context, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, each func(from netip.AddrPort) (more bool)) error {
	pc, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	defer pc.Close()
	return b.call(ctx, pc, p, args, res, each)
}

func (b *Broadcast) call(ctx context.Context, pc broadcastSocket, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, each func(from netip.AddrPort) (more bool)) error {
	x := broadcastCall{xid: rand.Uint32(), res: res, seen: map[netip.AddrPort]bool{}}
	call, err := b.encode(x.xid, p, args)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = pc.SetReadDeadline(past) })()
	wait := b.Resend
	setDefault(&wait, time.Second)
	buf := make([]byte, datagramSpace)
	for ; ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		if err := b.send(pc, call); err != nil {
			return err
		}
		if err := pc.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		// Check ctx first: the deadline above may have replaced the one set when ctx ended.
		for ctx.Err() == nil {
			n, from, err := pc.ReadFromUDPAddrPort(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil && !undelivered(err) {
				return err
			}
			from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			if err == nil && x.takes(buf[:n], from) && !each(from) {
				return nil
			}
		}
	}
	return nil
}

// encode returns the call's datagram.
func (b *Broadcast) encode(xid uint32, p *Proc, args xdr.Marshaler) ([]byte, error) {
	h := oncrpc.CallHeader{XID: xid, Prog: p.Prog, Vers: p.Vers, Proc: p.Proc}
	if b.Auth != nil {
		h.Cred = b.Auth.opaque
	}
	e := xdr.NewEncoder(nil)
	h.EncodeXDR(e)
	if args != nil {
		args.EncodeXDR(e)
	}
	if recordSize(e) > maxDatagram {
		return nil, ErrDatagramSize
	}
	return appendMessage(nil, e), nil
}

// send sends the call to all addresses. It fails if no address can be sent to.
func (b *Broadcast) send(pc broadcastSocket, call []byte) (err error) {
	sent := false
	for _, to := range b.To {
		_, e := pc.WriteToUDPAddrPort(call, to)
		sent = sent || e == nil
		err = errors.Join(err, e)
	}
	if sent {
		return nil
	}
	if err == nil {
		err = errors.New("rpc: a broadcast without addresses")
	}
	return err
}

// A broadcastCall is the state of one call.
type broadcastCall struct {
	xid  uint32
	res  xdr.Unmarshaler
	seen map[netip.AddrPort]bool // sources of accepted replies
}

// takes reports whether b is a server's first successful reply, and decodes it.
func (x *broadcastCall) takes(b []byte, from netip.AddrPort) bool {
	if len(b) < 8 || binary.BigEndian.Uint32(b) != x.xid || x.seen[from] || len(x.seen) >= maxAnswers {
		return false
	}
	d := xdr.NewDecoder(b)
	var h oncrpc.ReplyHeader
	if h.DecodeXDR(d); d.Err() != nil || !h.OK() {
		return false
	}
	if x.res != nil {
		x.res.DecodeXDR(d)
	}
	if d.Err() != nil {
		return false
	}
	x.seen[from] = true
	return true
}

// BroadcastAddrs returns the IPv4 broadcast addresses of this machine's networks, each with the
// port.
func BroadcastAddrs(port uint16) (all []netip.AddrPort, err error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagBroadcast == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil { // the interface has gone
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
				all = append(all, netip.AddrPortFrom(lastAddr(n), port))
			}
		}
	}
	return all, nil
}

// lastAddr returns an IPv4 network's broadcast address.
func lastAddr(n *net.IPNet) netip.Addr {
	a, mask := [4]byte(n.IP.To4()), n.Mask[len(n.Mask)-4:]
	for i := range a {
		a[i] |= ^mask[i]
	}
	return netip.AddrFrom4(a)
}
