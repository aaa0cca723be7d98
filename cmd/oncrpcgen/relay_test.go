// A relay of datagrams that loses the first reply to each call.

package main

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
)

const (
	patience    = 10 * time.Minute
	lossyResend = 20 * time.Millisecond // short, because a repeated call does no harm
)

// A relay stands between a client and a server.
type relay struct {
	near *net.UDPConn // the client's end
	far  net.Conn     // the server's end

	mu     sync.Mutex
	client netip.AddrPort
	calls  map[uint32]int // number of transmissions, by XID
	lost   map[uint32]bool
}

// newRelay starts a relay to a server.
func newRelay(t *testing.T, server string) *relay {
	near, err := transport.ListenUDP("127.0.0.1:0")
	must.Succeed(t, err)
	far, err := net.Dial("udp", server)
	must.Succeed(t, err)
	r := &relay{near: near, far: far, calls: map[uint32]int{}, lost: map[uint32]bool{}}
	var wg sync.WaitGroup
	wg.Go(r.forward)
	wg.Go(r.back)
	t.Cleanup(func() {
		near.Close()
		far.Close()
		wg.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.near.LocalAddr().String() }

// forward sends each call on to the server.
func (r *relay) forward() {
	b := make([]byte, 1<<16)
	for {
		n, from, err := r.near.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.client = from
		r.calls[binary.BigEndian.Uint32(b)]++
		r.mu.Unlock()
		_, _ = r.far.Write(b[:n])
	}
}

// back sends each reply on to the client, except the first to each call.
func (r *relay) back() {
	b := make([]byte, 1<<16)
	for {
		n, err := r.far.Read(b)
		if err != nil {
			return
		}
		xid := binary.BigEndian.Uint32(b)
		r.mu.Lock()
		client, pass := r.client, r.lost[xid]
		r.lost[xid] = true
		r.mu.Unlock()
		if pass {
			_, _ = r.near.WriteToUDPAddrPort(b[:n], client)
		}
	}
}

// check fails the test unless the number of calls is right, and each call was sent again.
func (r *relay) check(t *testing.T, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	must.Equal(t, "calls", len(r.calls), calls)
	for xid, n := range r.calls {
		if n < 2 {
			t.Errorf("call %08x: sent %d times, want 2 or more", xid, n)
		}
	}
}
