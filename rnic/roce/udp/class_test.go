//go:build linux

// The ECN bits of received packets, in single and joined messages.

package udp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Sent packets permit marks by a switch, and received packets' network headers show marks.
func TestECNBits(t *testing.T) {
	for _, c := range []struct {
		from, to    string
		level, name int
		shift       int
	}{
		{"127.0.0.1:0", "127.0.0.2:0", unix.IPPROTO_IP, unix.IP_TOS, 0},
		{"[::1]:0", "[::1]:0", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 4},
	} {
		a, b := open(t, c.from), open(t, c.to)
		in := NewInbound(b, 8)
		for _, ecn := range []byte{2, 3, 2, 0} {
			if ecn != ect0 { // a switch's mark
				if err := a.raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), c.level, c.name, int(ecn)) }); err != nil {
					t.Fatalf("Control: %v", err)
				}
			}
			for _, count := range []int{1, 3} {
				out := NewBatch(a, 8)
				for range count {
					add(t, out, 100, b.Local())
				}
				if _, _, err := a.Send(out); err != nil {
					t.Fatalf("Send: %v", err)
				}
				for got := 0; got < count; got += in.Len() {
					if err := b.Receive(in); err != nil {
						t.Fatalf("Receive: %v", err)
					}
					for i := range in.Len() {
						network, _, good := in.Packet(i)
						if is := network[1] >> c.shift & 3; is != ecn || !good {
							t.Errorf("%s, %d packets: ECN bits %d, want %d; ICRC good: %v", c.from, count, is, ecn, good)
						}
					}
				}
			}
			if err := a.raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), c.level, c.name, ect0) }); err != nil {
				t.Fatalf("Control: %v", err)
			}
		}
	}
}
