// The suite of all providers, run over this one.

package roce

import (
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

func TestVerbs(t *testing.T) {
	port := freePort(t, "127.0.0.1:0") // at that of RoCE the address may be another program's
	open := func(cfg rnic.DeviceConfig) *rnic.Device { return OpenWith(cfg, Options{Port: port}) }
	_, at := hosts()
	rnictest.Verbs(t, rnictest.Bed{Open: open, Network: "udp", Addr: netip.AddrPortFrom(at, service).String()})
}
