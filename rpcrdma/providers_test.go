// The providers for connection tests: one table, and tests that run over each provider.

package rpcrdma

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// A provider is an entry of the table.
type provider struct {
	name          string
	open          func(testing.TB, rnic.DeviceConfig) *rnic.Device
	network, addr string
}

// providers is the table.
var providers = []provider{
	{iwarp.Name, func(_ testing.TB, cfg rnic.DeviceConfig) *rnic.Device { return iwarp.Open(cfg) }, "tcp", "127.0.0.1:0"},
	{roce.Name, openRoCE, "udp", "127.0.0.1:20049"},
}

// openRoCE uses a separate UDP port. On RoCE's own port these tests would have to alternate with
// those of other packages, and a client's address would be another one each time.
func openRoCE(t testing.TB, cfg rnic.DeviceConfig) *rnic.Device {
	return roce.OpenWith(cfg, roce.Options{Port: uint16(machine.Port(t))})
}

// A bed is a test over one provider.
type bed struct {
	*testing.T
	provider provider
}

// overProviders runs a test over each of the providers.
func overProviders(t *testing.T, test func(*bed)) {
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) { test(&bed{t, p}) })
	}
}

// Run runs a part of a test, over the same provider.
func (b *bed) Run(name string, part func(*bed)) bool {
	return b.T.Run(name, func(t *testing.T) { part(&bed{t, b.provider}) })
}

// providerOf returns t's provider: iWARP if overProviders has not started t.
func providerOf(t testing.TB) provider {
	if b, ok := t.(*bed); ok {
		return b.provider
	}
	return providers[0]
}

// listen opens a device of t's provider, and listens.
func listen(t testing.TB) (*rnic.Device, rnic.Listener) {
	t.Helper()
	p := providerOf(t)
	dev := p.open(t, rnic.DeviceConfig{})
	l, err := dev.Listen(p.network, p.addr)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	return dev, l
}
