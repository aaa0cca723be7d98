// Connections of one client: decides whether a call over one repeats a call over another.

package transport

import (
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A fate is the state of a connection for the duplicate request cache.
//
//	      ┌──── bytes are not acknowledged ──────────────────────────────► doubtful
//	      ├──── the client has closed its direction before the last reply ────► half │
//	live ─┼──── the client has closed it, and has every reply ────► closed       │   │
//	      └──── any other end ────► cut ◄────────────────────────────────────────┴───┘
//
// A doubtful connection is live again when the client acknowledges the repeated bytes.
type fate int

const (
	fateLive     fate = iota // the client has the connection
	fateDoubtful             // the client has possibly lost it
	fateHalf                 // the client sends no more by it, and possibly waits for no reply
	fateClosed               // the client has all replies: it repeats none of its calls
	fateCut                  // replies were possibly lost: the client may repeat calls over another one
)

// An origin is the connection of a call. It stays with the call's reply after the connection has
// ended.
type origin struct {
	local, remote netip.AddrPort // set once; local is not valid if ports do not identify connections

	mu   sync.Mutex  // guards all below; look takes the lock of a connection's gate
	look func() fate // returns the state of a connection that has not ended; nil: it is live
	end  fate        // live until it has ended
}

// watch sets the function that returns the connection's state until it ends.
func (o *origin) watch(look func() fate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look = look
}

// ended is called when the connection ends; the first fate stays.
func (o *origin) ended(f fate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end == fateLive {
		o.end, o.look = f, nil
	}
}

func (o *origin) fate() fate {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end == fateLive && o.look != nil {
		return o.look()
	}
	return o.end
}

// repeatedBy reports whether a call over later repeats a call of the same bytes, host and user over
// o. It does over the same connection or one with the same ports, as Linux's client makes it, and
// if the client has lost o, or possibly has. A client has no call pending on two live connections,
// and repeats none after it has the reply. f is the fate of o, or live where it is not asked for.
func (o *origin) repeatedBy(later *origin) (repeats bool, f fate) {
	if o == later || o.local.IsValid() && o.local == later.local && o.remote == later.remote {
		return true, fateLive
	}
	f = o.fate()
	return f != fateLive && f != fateClosed, f
}

// left reports whether the client has possibly gone on to another connection for good. A call that
// is read then is dropped if another connection has its copy: the client has asked there, or asks
// again when this connection ends.
func (o *origin) left() bool {
	f := o.fate()
	return f == fateHalf || f == fateCut
}

// tcpFate returns the fate of a TCP connection according to the kernel, and live if c has no
// socket. half is the fate after the peer has closed its direction. That is closed only if the peer
// has acknowledged as many bytes as were replied.
func tcpFate(c net.Conn, half fate, replied uint64) fate {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return fateLive
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return fateCut
	}
	f := fateCut
	_ = raw.Control(func(fd uintptr) { // an error: it has been closed
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil:
		case info.State == tcpEstablished && info.Retransmits == 0:
			f = fateLive
		case info.State == tcpEstablished:
			f = fateDoubtful
		case info.State == tcpCloseWait:
			// A client that closes its socket with input unread resets the connection instead.
			f = half
			if half == fateClosed && info.Bytes_acked < replied {
				f = fateHalf
			}
		}
	})
	return f
}
