// Both roles in this process, on addresses of loopback that no other test has.

package verbs

import (
	"context"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// both runs a test as server, and as client once the server listens. server and client may change
// their options.
func both[R any](t *testing.T, o Options, run func(context.Context, Options) (R, error), server, client func(*Options)) (s, c R, serverErr, clientErr error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, b := machine.Addr(t), machine.Addr(t)
	so, co := o, o
	so.Local, co.Local = a, b
	so.Device, co.Device = roce.Open(rnic.DeviceConfig{}), roce.Open(rnic.DeviceConfig{})
	ready := make(chan net.Addr, 1)
	so.Waiting = func(at net.Addr) { ready <- at }
	so.Port = machine.Port(t)
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
