// A relay between a client and a volume's servers, which drops chosen replies.

package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const lastFragment = 1 << 31 // bit in the mark before a fragment (RFC 5531 §11)

// A relay forwards NFS clients over TCP to a server. It stands for an address that moves to another
// machine when the server dies, so clients reconnect to the same address.
type relay struct {
	t    *testing.T
	l    net.Listener
	lost chan struct{} // has a value for each dropped reply
	wg   sync.WaitGroup

	mu    sync.Mutex
	to    string
	lose  uint32 // the procedure of the next call to lose its reply; 0: none
	conns map[net.Conn]bool
	ended bool
}

// startRelay starts a relay at an address of this machine.
func startRelay(t *testing.T, host, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	r := &relay{t: t, l: l, to: to, lost: make(chan struct{}, 1), conns: map[net.Conn]bool{}}
	r.wg.Go(r.accept)
	t.Cleanup(r.end)
	return r
}

func (r *relay) port() int { return r.l.Addr().(*net.TCPAddr).Port }

// loses makes the next call of a procedure lose its reply; move directs new connections to another
// server.
func (r *relay) loses(proc uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = proc
}

func (r *relay) move(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
}

// end closes all connections, and returns when no goroutine of the relay is running.
func (r *relay) end() {
	r.l.Close()
	r.mu.Lock()
	r.ended = true
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *relay) accept() {
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		to := r.to
		r.mu.Unlock()
		s, err := net.Dial("tcp", to)
		if err != nil || !r.keep(c, s) {
			c.Close()
			continue
		}
		r.wg.Go(func() { r.carry(c, s) })
	}
}

// keep registers both connections to be closed by end.
func (r *relay) keep(both ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range both {
		if r.ended {
			c.Close()
		} else {
			r.conns[c] = true
		}
	}
	return !r.ended
}

// carry carries records both ways until one side ends.
func (r *relay) carry(client, server net.Conn) {
	both := []net.Conn{client, server}
	end := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range both {
			c.Close()
			delete(r.conns, c)
		}
	}
	defer end()
	losing := make(chan uint32, 1) // the XID of the reply to drop
	r.wg.Go(func() {
		defer end()
		_ = records(server, client, func(call []byte) bool {
			if xid, ok := r.chosen(call); ok {
				losing <- xid
			}
			return true
		})
	})
	var xid uint32
	var one bool
	_ = records(client, server, func(reply []byte) bool {
		select {
		case xid = <-losing: // forwarding the call has sent its XID before the reply can arrive
			one = true
		default:
		}
		if !one || len(reply) < 4 || binary.BigEndian.Uint32(reply) != xid {
			return true
		}
		one = false
		r.lost <- struct{}{}
		return false
	})
}

// chosen returns the XID of a call if its reply must be dropped.
func (r *relay) chosen(call []byte) (xid uint32, ok bool) {
	if len(call) < 24 || binary.BigEndian.Uint32(call[12:]) != nfs3.Program {
		// XID, CALL, RPC version, program, version, procedure (RFC 5531 §9)
		return 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lose == 0 || binary.BigEndian.Uint32(call[20:]) != r.lose {
		return 0, false
	}
	r.lose = 0
	return binary.BigEndian.Uint32(call), true
}

// records copies single-fragment records, except those that pass refuses.
func records(to io.Writer, from io.Reader, pass func(record []byte) bool) error {
	for {
		var mark [4]byte
		if _, err := io.ReadFull(from, mark[:]); err != nil {
			return err
		}
		m := binary.BigEndian.Uint32(mark[:])
		if m&lastFragment == 0 {
			return errors.New("a record of several fragments")
		}
		b := make([]byte, 4+m&^lastFragment)
		copy(b, mark[:])
		if _, err := io.ReadFull(from, b[4:]); err != nil {
			return err
		}
		if !pass(b[4:]) {
			continue
		}
		if _, err := to.Write(b); err != nil {
			return err
		}
	}
}
