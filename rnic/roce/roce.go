// The provider: its name, its limits, and how it is opened.

package roce

import (
	"errors"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// Name is what rnic.Open knows the provider by.
const Name = "roce"

// UDPPort is the port that RoCEv2 has (IBA wire RoCEv2 [IBU-187]).
const UDPPort = 4791

func init() { rnic.Register(Name, Open) }

// Depths of the read queues unless the DeviceConfig says otherwise: IRD costs memory for each QP,
// ORD does not.
const (
	defaultIRD = 16
	defaultORD = 128
)

// Options is what only this provider knows of a Device.
type Options struct {
	// Port is the UDP port, of both ends; 0: UDPPort, which is the only one that others than this
	// package use.
	Port uint16

	// Wrap has the packets of each address go through what it returns; nil: nothing is between the
	// ports and their sockets. It is for tests, and not called when the address is in use by this
	// process already.
	Wrap func(udp.Wire) udp.Wire

	// FlowControl has the acknowledges of RC tell the peer how many receives are posted (IBA
	// 9.7.7.2), so that it waits where there are none instead of asking again. It is for queues
	// that run empty: a peer sends one message at first, until it has been told of more. Credits
	// that a peer tells are obeyed in any case.
	FlowControl bool

	// State is a directory where the connections of listeners are kept, in a file for each address:
	// those that this process has when it is killed the next one ends, so that their peers need not
	// wait until they find out; "": nowhere.
	State string

	// Unserved is called for each unavailable address of a listener at all addresses that has
	// others, and with nil when the address becomes available. It may be nil, and MUST NOT wait.
	Unserved func(at netip.Addr, err error)
}

// A provider is the rnic.Provider of one Device.
type provider struct {
	// set once
	cfg rnic.DeviceConfig
	opt Options

	paths paths
}

// Open returns a software RNIC for RoCEv2.
func Open(cfg rnic.DeviceConfig) *rnic.Device { return OpenWith(cfg, Options{}) }

// OpenWith is Open with options of this provider.
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

// defaultHandshakes is how many connection requests wait for Accept at most.
const defaultHandshakes = 256

// depth is a depth of the read queues as asked for, made sane.
func depth(n, unset int) int {
	if n <= 0 {
		return unset
	}
	return min(n, core.MaxOutstandingReads)
}

// privateDataMax is what a REQ of rdma_cm has room for, after the 36 bytes that name the IP
// addresses.
const privateDataMax = 56

// Caps is what the provider can do.
func (p *provider) Caps() rnic.Caps {
	return rnic.Caps{Provider: Name, Services: 1<<rnic.RC | 1<<rnic.UC | 1<<rnic.UD, Reliable: true, RDMARead: true, RemoteInval: true,
		ImmediateData: true, Atomics: true, MaxIRD: p.cfg.MaxIRD, MaxORD: p.cfg.MaxORD,
		MaxMessage: core.MaxMessage, MaxPrivateData: privateDataMax}
}

// Errors of a program's calls.
var (
	errForeignQP = errors.New("roce: a QP of another provider")
	errNotBound  = errors.New("roce: the QP has not been bound to an address")
	errBound     = errors.New("roce: the QP has been bound to an address already")
)
