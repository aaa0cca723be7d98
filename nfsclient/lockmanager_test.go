// A server that dies during the search for its lock manager.

package nfsclient

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A dyingServer has a port for files and one for locks, each served on demand.
type dyingServer struct {
	t           *testing.T
	files, lock string // addresses
	c           *Client
}

// newDyingServer returns a server of files with a Client.
func newDyingServer(t *testing.T, callTimeout time.Duration) (s *dyingServer, stop func()) {
	t.Helper()
	port, lockPort := machine.Port(t), machine.Port(t)
	at := func(port int) string { return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String() }
	s = &dyingServer{t: t, files: at(port), lock: at(lockPort)}
	stop = s.serve(s.files, nfs3.Program, nfs3.Version)
	var err error
	if s.c, err = Dial(t.Context(), s.files, Options{Transport: TCP, LockPort: lockPort, CallTimeout: callTimeout}); err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { s.c.Close() })
	return s, stop
}

// serve serves a program's NULL at an address until stop.
func (s *dyingServer) serve(addr string, program, version uint32) (stop func()) {
	s.t.Helper()
	null := transport.Procedure{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }}
	server := transport.NewServer(transport.ServerConfig{},
		&transport.Program{Name: "null", Number: program, Version: version, Procs: []transport.Procedure{null}})
	l, err := net.Listen("tcp", addr)
	if err != nil {
		s.t.Fatalf("listen: %v", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); server.ServeTCP(l) }()
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ctx) // the ended context closes connections at once
		<-done
	})
	s.t.Cleanup(stop)
	return stop
}

// ask calls the lock manager in the background.
func (s *dyingServer) ask(ctx context.Context) <-chan error {
	asked := make(chan error, 1)
	go func() { asked <- s.c.CallLockManager(ctx, nlm4.ProcNull, nil, nil) }()
	return asked
}

// await waits for a condition that holds while the call waits.
func (s *dyingServer) await(asked <-chan error, what string, holds func(transport.LinkFigures) bool) {
	s.t.Helper()
	for !holds(s.c.conns[0].Figures()) {
		select {
		case err := <-asked:
			s.t.Fatalf("%s: it does not wait: %v", what, err)
		case <-s.t.Context().Done():
			s.t.Fatal(what)
		case <-time.After(time.Millisecond):
		}
	}
}

func waits(f transport.LinkFigures) bool { return f.Waiting > 0 }

// The first lock call waits until the server is back, and then until its lock manager is back.
func TestServerThatDiesHasALockManager(t *testing.T) {
	s, stop := newDyingServer(t, transport.Hard)
	if err := <-s.ask(t.Context()); !errors.Is(err, ErrNoLockManager) {
		t.Fatalf("a server that lives, and has none: %v", err)
	}
	s.c.locks.leave() // forgets the result of that search
	stop()
	before := s.c.conns[0].Figures().Connects
	asked := s.ask(t.Context())
	s.await(asked, "the server is dead", waits)
	s.serve(s.files, nfs3.Program, nfs3.Version)
	s.await(asked, "the server is there again", func(f transport.LinkFigures) bool { return f.Connects > before && !waits(f) })
	s.serve(s.lock, nlm4.Program, nlm4.Version)
	if err := <-asked; err != nil {
		t.Errorf("when its lock manager is there again: %v", err)
	}
}

// The search for a lock manager ends with the context of its callers, even if the server is dead.
func TestSearchOfALockManagerEnds(t *testing.T) {
	s, stop := newDyingServer(t, transport.Hard)
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	one := s.ask(ctx)
	s.await(one, "the server is dead", waits)
	other := s.ask(ctx)
	cancel()
	for _, asked := range []<-chan error{one, other} {
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	if _, err := s.c.locks.cached(); err != nil {
		t.Errorf("who was interrupted has found out that %v", err)
	}
}

// A soft Client gets the error of its timeout, not the error for a server without a lock manager.
func TestSearchOfALockManagerSoft(t *testing.T) {
	s, stop := newDyingServer(t, time.Second)
	stop()
	if err := <-s.ask(t.Context()); err == nil || errors.Is(err, ErrNoLockManager) {
		t.Errorf("%v", err)
	}
}
