// The pairs of connections that the tests use, over each provider.

package rconn

import (
	"context"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// device opens a device of a provider, and returns an address for a listener. RoCE gets a UDP port
// of the test's own.
func device(t testing.TB, network string, cfg rnic.DeviceConfig) (dev *rnic.Device, addr string) {
	if network == roce.Name {
		return roce.OpenWith(cfg, roce.Options{Port: uint16(machine.Port(t))}), "127.0.0.1:20049"
	}
	return iwarp.Open(cfg), "127.0.0.1:0"
}

// listen listens with a device of a provider, and returns the configuration for Dial.
func listen(t testing.TB, network string, cfg Config) (*Listener, *Config) {
	t.Helper()
	var addr string
	cfg.Device, addr = device(t, network, rnic.DeviceConfig{})
	l, err := Listen(network, addr, &cfg)
	must.Succeed(t, err)
	t.Cleanup(func() { l.Close() })
	return l, &cfg
}

// pair returns both ends of a connection.
func pair(t testing.TB, network string, cfg Config) (active, passive *Conn) {
	t.Helper()
	l, client := listen(t, network, cfg)
	return join(t, l, client)
}

// join returns both ends of a new connection to l.
func join(t testing.TB, l *Listener, cfg *Config) (active, passive *Conn) {
	t.Helper()
	a, err := Dial(context.Background(), l.network, l.Addr().String(), cfg)
	must.Succeed(t, err)
	t.Cleanup(func() { a.Close() })
	p, err := l.Accept()
	must.Succeed(t, err)
	t.Cleanup(func() { p.Close() })
	return a, p.(*Conn)
}

// overProviders runs a test over each provider.
func overProviders(t *testing.T, test func(t *testing.T, network string)) {
	for _, network := range []string{iwarp.Name, roce.Name} {
		t.Run(network, func(t *testing.T) { test(t, network) })
	}
}
