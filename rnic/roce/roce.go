// The provider: its name, limits, and options.

package roce

import (
	"errors"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// Name is the provider's name for rnic.Open.
const Name = "roce"

// UDPPort is RoCEv2's port (IBA wire RoCEv2 [IBU-187]).
const UDPPort = 4791

func init() { rnic.Register(Name, Open) }

// Options has this provider's own Device options.
type Options struct {
	// Port is both ends' UDP port; 0: UDPPort, the only one that other implementations use.
	Port uint16

	// Wrap, if not nil, returns a Wire between each new port and its socket; for tests. Wrap is not
	// called for an address already in use by this process.
	Wrap func(udp.Wire) udp.Wire

	// FlowControl makes RC's acknowledges report the number of posted receives (IBA 9.7.7.2). A
	// peer then waits for receives instead of retrying. FlowControl suits queues that run empty. At
	// first a peer sends one message, until it gets more credits. A peer's own credits are always
	// obeyed.
	FlowControl bool

	// State is a directory that records listeners' connections, in one file for each address.
	// After this process is killed, the next one ends those connections, so that the peers need
	// not wait for a timeout. "": none.
	State string

	// Unserved is called for each unavailable address of a listener on all addresses, and with nil
	// when the address becomes available. Unserved may be nil, and MUST NOT block.
	Unserved func(at netip.Addr, err error)
}

// A provider is a Device's rnic.Provider.
type provider struct {
	// set once
	cfg rnic.DeviceConfig
	opt Options

	paths paths
}

// Open returns a software RNIC for RoCEv2.
func Open(cfg rnic.DeviceConfig) *rnic.Device { return OpenWith(cfg, Options{}) }

// OpenWith is Open with options for this provider.
func OpenWith(cfg rnic.DeviceConfig, o Options) *rnic.Device {
	cfg.MaxIRD = depth(cfg.MaxIRD, defaultIRD)
	cfg.MaxORD = depth(cfg.MaxORD, defaultORD)
	if cfg.MaxHandshakes <= 0 {
		cfg.MaxHandshakes = defaultHandshakes
	}
	if o.Port == 0 {
		o.Port = UDPPort
	}
	return rnic.NewDevice(&provider{cfg: cfg, opt: o})
}

// depth limits a read queue depth; unset is the value for 0.
func depth(n, unset int) int {
	if n <= 0 {
		return unset
	}
	return min(n, core.MaxOutstandingReads)
}

// Caps returns the provider's capabilities.
func (p *provider) Caps() rnic.Caps {
	return rnic.Caps{Provider: Name, Services: 1<<rnic.RC | 1<<rnic.UC | 1<<rnic.UD, Reliable: true, RDMARead: true, RemoteInval: true,
		ImmediateData: true, Atomics: true, MaxIRD: p.cfg.MaxIRD, MaxORD: p.cfg.MaxORD,
		MaxMessage: core.MaxMessage, MaxPrivateData: privateDataMax}
}

// Errors caused by a program's calls.
var (
	errForeignQP = errors.New("roce: a QP of another provider")
	errNotBound  = errors.New("roce: the QP has not been bound to an address")
	errBound     = errors.New("roce: the QP has been bound to an address already")
)
