//go:build linux

// ICMP errors about packets to closed ports.

package udp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A packet to a closed port is reported with its beginning, and no other packet is lost for it,
// in either direction.
func TestPortUnreachable(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		a, b, gone := open(t, addr), open(t, addr), open(t, addr)
		type told struct {
			to    netip.AddrPort
			quote []byte
		}
		refused := make(chan told, 100)
		a.OnRefused(func(to netip.AddrPort, datagram []byte) { refused <- told{to, bytes.Clone(datagram)} })
		to := gone.Local()
		gone.Close()
		out, in := NewBatch(a, 16), NewBatch(b, 16)
		for range 10 {
			// The error about a Send's first packet may fail the next system call.
			add(t, out, 100, to)
			if n, _, err := a.Send(out); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			add(t, out, 200, b.Local())
			if n, _, err := a.Send(out); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			gather(t, b, 1, a.Local())
			add(t, in, 300, a.Local())
			if n, _, err := b.Send(in); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			gather(t, a, 1, b.Local())
		}
		select {
		case r := <-refused:
			want := out.room[:12] // the BTH of 100-byte packets except the PSN; see add
			must.Equal(t, "r.to", r.to, to)
			must.Equal(t, "len(r.quote)", len(r.quote), quoted)
			must.Equal(t, "r.quote[0]", r.quote[0], want[0])
			must.Equal(t, "r.quote[11]", r.quote[11], 100)
		case <-time.After(time.Minute):
			t.Error("not told of")
		}
	}
}

// TestHostUnreachableIsIgnored: a host-unreachable message does not count as port-unreachable,
// though both quote a packet.
func TestHostUnreachableIsIgnored(t *testing.T) {
	machine.NeedRoot(t, "raw sockets need root")
	a, gone := open(t, "127.0.0.1:0"), open(t, "127.0.0.1:0")
	refused := make(chan netip.AddrPort, 100)
	a.OnRefused(func(to netip.AddrPort, _ []byte) { refused <- to })
	to := gone.Local()
	gone.Close()
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		t.Fatalf("Socket: %v", err)
	}
	defer unix.Close(raw)
	local := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Sendto(raw, hostUnreachable(a.Local(), netip.MustParseAddrPort("127.0.0.2:4791")), 0, &local); err != nil {
		t.Fatalf("Sendto: %v", err)
	}
	out := NewBatch(a, 16)
	for len(refused) == 0 { // a system call reads the queue if it is not empty
		add(t, out, 100, to)
		if _, _, err := a.Send(out); err != nil {
			t.Fatalf("Send: %v", err)
		}
	}
	if got := <-refused; got != to {
		t.Errorf("refused by %v, want %v", got, to)
	}
}

// hostUnreachable returns an ICMP message (RFC 792) about an empty datagram.
func hostUnreachable(from, to netip.AddrPort) []byte {
	b := make([]byte, 8+20+8)
	b[0], b[1] = 3, 1
	ip, udp := b[8:28], b[28:]
	ip[0], ip[8], ip[9] = 4<<4|5, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], 28)
	copy(ip[12:], from.Addr().AsSlice())
	copy(ip[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(udp, from.Port())
	binary.BigEndian.PutUint16(udp[2:], to.Port())
	binary.BigEndian.PutUint16(udp[4:], 8)
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum+sum>>16))
	return b
}
