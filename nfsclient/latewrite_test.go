// A WRITE is sent again while its first copy is still running in the server.

package nfsclient_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A relay forwards connections to a server until cut is called.
type relay struct {
	l  net.Listener
	to string

	mu    sync.Mutex
	conns []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	r := &relay{l: l, to: to}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			r.forward(c)
		}
	}()
	t.Cleanup(func() { l.Close(); r.cut() })
	return r
}

func (r *relay) addr() string { return r.l.Addr().String() }

func (r *relay) forward(c net.Conn) {
	s, err := net.Dial("tcp", r.to)
	if err != nil {
		c.Close()
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, c, s)
	r.mu.Unlock()
	for _, p := range [][2]net.Conn{{c, s}, {s, c}} {
		go func() {
			// the writer's type is hidden to prevent splice, whose pipes stay in a pool
			io.Copy(struct{ io.Writer }{p[0]}, p[1])
			p[0].Close()
		}()
	}
}

// cut ends all present connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// A WRITE stalls in the server, its connection is cut, and it is sent again. Then the same bytes
// are overwritten and synced. When the first copy finally continues, the synced data stays.
func TestLateWriteDoesNotUndoNewerOnes(t *testing.T) {
	stalled, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	var stall sync.Mutex
	var armed bool
	rdma, tcp := servePrograms(t, programs(t, map[uint32]func(run) run{nfs3.ProcWrite: func(write run) run {
		return func(c *transport.Call) error {
			stall.Lock()
			mine := armed
			armed = false
			stall.Unlock()
			if mine {
				stalled <- struct{}{}
				<-goOn
				defer func() { ended <- struct{}{} }()
			}
			return write(c)
		}
	}})...)
	for tr, to := range map[nfsclient.Transport]string{nfsclient.RDMA: rdma, nfsclient.TCP: tcp} {
		for _, size := range []int{100, 300_000} { // data in the message, and in a chunk
			r := newRelay(t, to)
			fsys, err := dial(t, tr, r.addr(), r.addr(), nfsclient.Options{}).Mount(t.Context(), exportName)
			must.Succeed(t, err)
			f, err := fsys.Create(t.Context(), "f", 0o600)
			must.Succeed(t, err)
			stall.Lock()
			armed = true
			stall.Unlock()
			synced := make(chan struct{})
			go func() {
				<-stalled
				r.cut()
				select { // waits: newer data that could overtake would be stored by now
				case <-synced:
				case <-time.After(time.Second):
				}
				goOn <- struct{}{}
			}()
			older, newer := bytes.Repeat([]byte("A"), size), bytes.Repeat([]byte("B"), size)
			_, err = f.WriteAt(older, 0)
			must.Succeed(t, err)
			_, err = f.WriteAt(newer, 0)
			must.Succeed(t, err)
			must.Succeed(t, f.Sync())
			close(synced)
			<-ended
			got := make([]byte, size)
			if _, err := f.ReadAt(got, 0); err != nil && err != io.EOF {
				t.Errorf("%v, %d bytes: read: %v", tr, size, err)
			}
			if !bytes.Equal(got, newer) {
				t.Errorf("%v, %d bytes: %d synced bytes are left, want all", tr, size, bytes.Count(got, []byte("B")))
			}
		}
	}
}
