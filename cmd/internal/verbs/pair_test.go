// Both roles in this process, on addresses of loopback that nothing else has.

package verbs

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

// hosts is two addresses of 127.0.0.0/8 that no other test of the machine has.
func hosts() (a, b netip.Addr) {
	var r [2]byte
	rand.Read(r[:])
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(128 + pid%100), r[0], 1 + r[1]%100}), netip.AddrFrom4([4]byte{127, byte(128 + pid%100), r[0], 101 + r[1]%100})
}

// both runs a test as server and, when that listens, as client. Each may change its options.
func both[R any](t *testing.T, o Options, run func(context.Context, Options) (R, error), server, client func(*Options)) (s, c R, serverErr, clientErr error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, b := hosts()
	so, co := o, o
	so.Local, co.Local = a, b
	so.Device, co.Device = roce.Open(rnic.DeviceConfig{}), roce.Open(rnic.DeviceConfig{})
	ready := make(chan net.Addr, 1)
	so.Waiting = func(at net.Addr) { ready <- at }
	so.Port = freePort(t, a)
	co.Port, co.Host = so.Port, a.String()
	if server != nil {
		server(&so)
	}
	if client != nil {
		client(&co)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, serverErr = run(ctx, so)
	}()
	select {
	case <-ready:
		go func() {
			if <-done; serverErr != nil {
				cancel() // the client would wait
			}
		}()
		c, clientErr = run(ctx, co)
	case <-done:
	}
	if clientErr != nil {
		cancel() // the server would wait
	}
	<-done
	return s, c, serverErr, clientErr
}

func freePort(t *testing.T, at netip.Addr) int {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
