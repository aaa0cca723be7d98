// Call.Memo: each connection has one, and a socket shared by clients has none.

package transport

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
)

// TestMemoIsOfOneConnection: one client's memo never appears in another's calls.
func TestMemoIsOfOneConnection(t *testing.T) {
	memos := make(chan *atomic.Value, 1)
	const number = 0x2fff0001
	prog := &Program{Name: "memo", Number: number, Version: 1, Procs: []Procedure{{Name: "TELL", Run: func(c *Call) error {
		memos <- c.Memo
		return nil
	}}}}
	s := NewServer(ServerConfig{}, prog)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("ListenUDP: %v", err)
	}
	go s.ServeTCP(tcp)
	go s.ServeUDP(udp)
	defer func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	}()
	tell := &Proc{Prog: number, Vers: 1, Name: "TELL", MaxReply: 64}
	var seen []*atomic.Value
	for range 2 {
		c, err := DialTCP(context.Background(), tcp.Addr().String(), ClientConfig{})
		if err != nil {
			t.Fatalf("DialTCP: %v", err)
		}
		defer c.Close()
		for range 2 {
			if err := c.Call(context.Background(), tell, nil, nil, nil, 0); err != nil {
				t.Fatalf("Call: %v", err)
			}
			seen = append(seen, <-memos)
		}
	}
	if seen[0] == nil || seen[0] != seen[1] || seen[2] != seen[3] || seen[0] == seen[2] {
		t.Errorf("of two connections: %p", seen)
	}
	c := dialUDP(t, udp.LocalAddr().(*net.UDPAddr).AddrPort())
	h := callBytes(1, 0, words{})
	copy(h[12:], []byte{0x2f, 0xff, 0, 1, 0, 0, 0, 1})
	if _, err := c.Write(h); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if got := <-memos; got != nil {
		t.Error("clients of a socket share a memo")
	}
}
