//go:build linux

// Messages of the network about packets that nobody takes.

package udp

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
)

// A packet to a port that nobody has is told of, with its beginning; and no other packet is lost
// for it, in or out.
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
			// What is told of the first packet of a Send may have the next system call fail.
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
			want := out.room[:12] // the BTH that packets of 100 bytes have but for the PSN; see add
			if r.to != to || len(r.quote) != quoted || r.quote[0] != want[0] || r.quote[11] != 100 {
				t.Errorf("%v, %x", r.to, r.quote)
			}
		case <-time.After(time.Minute):
			t.Error("not told of")
		}
	}
}
