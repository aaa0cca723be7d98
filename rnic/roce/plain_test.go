// A plain Go program over UDP, with sendmmsg and recvmmsg.

package roce

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

type mmsg struct {
	unix.Msghdr
	n uint32
}

// A plain is a socket with buffers for batches.
type plain struct {
	conn    *net.UDPConn
	raw     syscall.RawConn
	addr    netip.AddrPort
	in, out [64]mmsg
	iin     [64]unix.Iovec
	iout    [64]unix.Iovec
	name    unix.RawSockaddrInet4
	room    []byte
	data    []byte
}

func plainUDP(b *testing.B, at netip.Addr) *plain {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	if err != nil {
		b.Fatalf("ListenUDP: %v", err)
	}
	b.Cleanup(func() { c.Close() })
	p := &plain{conn: c, addr: c.LocalAddr().(*net.UDPAddr).AddrPort(), room: make([]byte, 64*8192), data: make([]byte, 8192)}
	p.raw, _ = c.SyscallConn()
	p.raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
		unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 8<<20)
	})
	for i := range p.in {
		p.iin[i].Base = &p.room[i*8192]
		p.iin[i].SetLen(8192)
		p.in[i].Iov = &p.iin[i]
		p.in[i].SetIovlen(1)
	}
	return p
}

func (p *plain) send(to netip.AddrPort, count, size int) {
	a := to.Addr().As4()
	p.name = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a, Port: to.Port()<<8 | to.Port()>>8}
	for i := range count {
		p.iout[i].Base = &p.data[0]
		p.iout[i].SetLen(size)
		p.out[i].Iov = &p.iout[i]
		p.out[i].SetIovlen(1)
		p.out[i].Name = (*byte)(unsafe.Pointer(&p.name))
		p.out[i].Namelen = unix.SizeofSockaddrInet4
	}
	at := 0
	for at < count {
		p.raw.Write(func(fd uintptr) bool {
			n, _, e := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&p.out[at])), uintptr(count-at), unix.MSG_DONTWAIT, 0, 0)
			if e == unix.EAGAIN {
				return false
			}
			at += int(n)
			return true
		})
	}
}

func (p *plain) receive() (got int, err error) {
	err = p.raw.Read(func(fd uintptr) bool {
		n, _, e := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&p.in[0])), 64, unix.MSG_DONTWAIT, 0, 0)
		if e == unix.EAGAIN {
			return false
		}
		got = int(n)
		return true
	})
	return got, err
}

// receive1 returns the number of packets received.
func (p *plain) receive1() int {
	n, _ := p.receive()
	return n
}
