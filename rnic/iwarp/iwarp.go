// The provider: its name, its limits, and how it is opened.

package iwarp

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
)

// Name is the provider's name for rnic.Open.
const Name = "iwarp"

func init() { rnic.Register(Name, Open) }

// A provider is an rnic.StreamProvider: one TCP connection for each QP.
type provider struct {
	// set once
	cfg rnic.DeviceConfig

	latest atomic.Pointer[earlyFlush] // the earlyFlush of the stream with the latest batch

	inputs     rxwait.Inputs
	yieldedFor atomic.Uint64 // inputs.Small when a large transfer last yielded to small calls
}

var _ rnic.StreamProvider = (*provider)(nil)

// Open returns a software iWARP RNIC.
func Open(cfg rnic.DeviceConfig) *rnic.Device {
	cfg.MaxIRD = readDepth(cfg.MaxIRD)
	cfg.MaxORD = readDepth(cfg.MaxORD)
	if cfg.MaxHandshakes <= 0 {
		cfg.MaxHandshakes = defaultHandshakes
	}
	if cfg.Dial == nil {
		cfg.Dial = dial
	}
	return rnic.NewDevice(&provider{cfg: cfg})
}

// readDepth returns n, limited to valid depths of the read queues; the default for 0.
func readDepth(n int) int {
	if n <= 0 {
		return defaultReads
	}
	return min(n, maxReads)
}

// Caps returns the provider's capabilities.
func (p *provider) Caps() rnic.Caps {
	return rnic.Caps{Provider: Name, Services: 1 << rnic.RC, Reliable: true, RDMARead: true, RemoteInval: true,
		Immediate: p.cfg.Extensions, Atomics: p.cfg.Extensions, MaxIRD: p.cfg.MaxIRD, MaxORD: p.cfg.MaxORD,
		MaxMessage: 1<<32 - 1, MaxPrivateData: privateDataMax}
}

// handshakeTimeout returns the time for MPA start-up in one role.
func (p *provider) handshakeTimeout(role time.Duration) time.Duration {
	if p.cfg.HandshakeTimeout > 0 {
		return p.cfg.HandshakeTimeout
	}
	return role
}

// ConnOptions are the options of one connection, passed by value in rnic.ConnParams.Provider.
type ConnOptions struct {
	// Settle is how long Connect holds back the first FPDU after the peer's Reply. A Linux siw
	// responder that is still switching its socket to FPDUs can miss the wake-up of an early FPDU.
	// 0: 2 ms; negative: none.
	Settle time.Duration

	// RTR makes Connect announce the peer-to-peer model and begin with one of these messages, so
	// that the responder may be the first to send (RFC 6581). 0: the client-server model, in which
	// the initiator's ULP speaks first, as in RPC. For Accept, RTR holds the kinds to choose from
	// when the peer wants the peer-to-peer model; 0: any. Accept chooses the cheapest kind, and any
	// valid message then lets the responder send.
	RTR RTR
}

var (
	errOptions   = errors.New("rnic: ConnParams.Provider is not an iwarp.ConnOptions")
	errForeignQP = errors.New("rnic: a QP of another provider")
)

// optionsOf returns p's options for this provider, all zero if p has no options.
func optionsOf(p *rnic.ConnParams) (o ConnOptions, err error) {
	if p.Provider == nil {
		return o, nil
	}
	o, ok := p.Provider.(ConnOptions)
	switch {
	case !ok:
		return o, fmt.Errorf("%w: %T", errOptions, p.Provider)
	case o.RTR&^RTRAny != 0:
		return o, errRTRKind
	}
	return o, nil
}
