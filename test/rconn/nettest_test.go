// The Go project's own test of a net.Conn, over each provider.

package rconn

import (
	"context"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/rconn"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// config returns a configuration for a provider, with a port of the test's own.
func config(t testing.TB, network string) (cfg *rconn.Config, addr string) {
	if network == roce.Name {
		port := uint16(machine.Port(t))
		return &rconn.Config{Device: roce.OpenWith(rnic.DeviceConfig{}, roce.Options{Port: port})}, "127.0.0.1:20049"
	}
	return &rconn.Config{Device: iwarp.Open(rnic.DeviceConfig{})}, "127.0.0.1:0"
}

// overProviders runs a test over each provider.
func overProviders(t *testing.T, test func(t *testing.T, network string)) {
	for _, network := range []string{iwarp.Name, roce.Name} {
		t.Run(network, func(t *testing.T) { test(t, network) })
	}
}

func TestConn(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		cfg, addr := config(t, network)
		l, err := rconn.Listen(network, addr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			c1, err = rconn.Dial(context.Background(), network, l.Addr().String(), cfg)
			if err != nil {
				return nil, nil, nil, err
			}
			c2, err = l.Accept()
			return c1, c2, func() { c1.Close(); c2.Close() }, err
		})
	})
}
