// Connections of one client: when a call by one of them repeats a call by another.

package transport

import (
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A fate is the state of a connection as far as the duplicate request cache asks for it.
//
//	      ┌──── bytes are not acknowledged, or the client has closed its direction ────► doubtful
//	live ─┼──── the client has closed it, and has every reply ────► closed                  │
//	      └──── any other end ────► cut ◄───────────────────────────────────────────────────┘
//
// A doubtful connection is live again when the client acknowledges what was sent again.
type fate int

const (
	fateLive     fate = iota // the client has it
	fateDoubtful             // the client possibly has it no more
	fateClosed               // the client has all replies: it repeats none of its calls
	fateCut                  // replies were possibly lost: the client may repeat calls over another connection
)

// An origin is the connection that a call came by. It stays with the call's reply when the connection has ended.
type origin struct {
	local, remote netip.AddrPort // set once; local is not valid where ports do not name connections

	mu   sync.Mutex  // guards what follows; look takes the lock of a connection's gate
	look func() fate // asks about a connection that has not ended; nil: it is live
	end  fate        // live until it has ended
}

// watch has look say how the connection is until it has ended.
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

// repeatedBy reports whether a call of the same bytes, host and user repeats by later a call that came by o: by the same connection, or one
// with the same ports, as Linux's client makes it, or when the client has o no more, or possibly so. A client has no call under way by two
// connections that live, and repeats none whose reply it has.
func (o *origin) repeatedBy(later *origin) bool {
	if o == later || o.local.IsValid() && o.local == later.local && o.remote == later.remote {
		return true
	}
	f := o.fate()
	return f == fateDoubtful || f == fateCut
}

// tcpFate returns the fate of a TCP connection as its kernel knows it, live where c has no socket. half
// is the fate where the peer has closed its direction; it is closed only if the peer has acknowledged
// as many bytes as were replied.
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
				f = fateDoubtful
			}
		}
	})
	return f
}
