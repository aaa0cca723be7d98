// The common suite for all providers, on this one.

package roce

import (
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

func TestVerbs(t *testing.T) {
	port := uint16(machine.Port(t)) // another program may have the RoCE port
	open := func(cfg rnic.DeviceConfig) *rnic.Device { return OpenWith(cfg, Options{Port: port}) }
	_, at := hosts(t)
	rnictest.Verbs(t, rnictest.Bed{Open: open, Network: "udp", Addr: netip.AddrPortFrom(at, service).String()})
}
