// Matching connections: decides whether a call over one repeats a call over another.

package transport

import (
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A fate is a connection's state for the duplicate request cache.
//
//	      ┌──── unacknowledged bytes were retransmitted ─────────────────► doubtful
//	      ├──── the client has closed its direction before the last reply ────► half │
//	live ─┼──── the client has closed it, and has every reply ────► closed       │   │
//	      └──── any other end ────► cut ◄────────────────────────────────────────┴───┘
//
// A doubtful connection becomes live when the client acknowledges the retransmitted bytes.
type fate int

const (
	fateLive     fate = iota // the client has the connection
	fateDoubtful             // the client has possibly lost it
	fateHalf                 // the client sends no more, and possibly awaits no reply
	fateClosed               // the client has all replies, and repeats no call
	fateCut                  // replies were possibly lost: the client may repeat calls elsewhere
)

// An origin is a call's connection. The call's stored reply refers to it even after the
// connection's end.
type origin struct {
	local, remote netip.AddrPort // set once; local is invalid if ports do not identify connections

	mu   sync.Mutex  // guards all below; look takes the gate's lock
	look func() fate // returns the state before the end; nil: live
	end  fate        // live until the end
}

// watch sets the function that returns the connection's state until it ends.
func (o *origin) watch(look func() fate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look = look
}

// ended records the connection's end; the first fate stays.
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

// repeatedBy reports whether a call over later repeats one with the same bytes, host and user over
// o. It does if later is o, has o's ports (Linux's client reuses them), or if the client has lost
// o, or possibly has. Otherwise the calls differ: a client has no call pending on two live
// connections, and repeats no answered call. f is o's fate, or live if it was not checked.
func (o *origin) repeatedBy(later *origin) (repeats bool, f fate) {
	if o == later || o.local.IsValid() && o.local == later.local && o.remote == later.remote {
		return true, fateLive
	}
	f = o.fate()
	return f != fateLive && f != fateClosed, f
}

// clientLeft reports whether the client has possibly gone to another connection permanently. A call
// over o that is read later is dropped if another connection has a copy: the client awaits the
// copy's reply, or will repeat the call when o ends.
func (o *origin) clientLeft() bool {
	f := o.fate()
	return f == fateHalf || f == fateCut
}

// fate returns the connection's state according to the kernel. After the client has closed its
// sending direction, the state is fateClosed if each call has its reply, otherwise fateHalf.
func (t *tcpConn) fate() fate {
	half := fateHalf
	if t.settled.Load() == t.received.Load() {
		half = fateClosed
	}
	replied := t.replied.Load()
	// A FIN can be forged. Of a client without close_notify the replies stay for their usual time,
	// and no more is lost.
	if s := t.stream.Load(); s != nil && half == fateClosed && (!s.notified() || s.kernel != nil && !t.acknowledged()) {
		half = fateHalf
	}
	return tcpFate(t.nc, half, replied)
}

// tcpFate returns a TCP connection's fate according to the kernel, or live if c has no socket. half
// is the fate after the peer has closed its direction; if half is fateClosed, the peer must also
// have acknowledged all replied bytes.
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
	_ = raw.Control(func(fd uintptr) { // an error: the socket has been closed
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil:
		case info.State == tcpEstablished && info.Retransmits == 0:
			f = fateLive
		case info.State == tcpEstablished:
			f = fateDoubtful
		case info.State == tcpCloseWait:
			// A client that closes its socket with unread input resets the connection instead.
			f = half
			if half == fateClosed && info.Bytes_acked < replied {
				f = fateHalf
			}
		}
	})
	return f
}
