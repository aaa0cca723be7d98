// The configuration of connections and listeners.

package rconn

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Config configures connections. The zero value suits most; nil is the zero value.
type Config struct {
	// Device makes the connections. nil: each Dial and each Listen opens a device of its own. A
	// program with many connections should share one device.
	Device *rnic.Device

	// Ring is the size in bytes of the memory filled by the peer between two calls of Read: 4 KiB
	// to 1 GiB, rounded up to a power of two. 0: 4 MiB. Pages never touched take no physical
	// memory. With 1 MiB a stream between two processes on the same CPUs has 3/4 the rate.
	Ring int

	// Linger is how long Close waits for the peer to have all written bytes. It also limits the
	// wait after a deadline that was set during a large Write. 0: 5 s.
	Linger time.Duration

	// Options are the provider's own, for rnic.ConnParams.Provider.
	Options any
}

// Defaults, and the sizes that are not configurable.
const (
	// defaultRing is the default ring size in bytes. 4 MiB: while one half is announced, the peer
	// fills the other, which takes longer than to wake a sleeping thread at each end. A TCP socket
	// may have as much.
	defaultRing = 4 << 20

	// defaultLinger is the default time for Close.
	defaultLinger = 5 * time.Second

	// ownReceives is the number of receives for each connection. 256: a peer can have about as many
	// small writes in flight.
	ownReceives = 256

	// stageBytes is the size of the memory from which small writes leave. 512 KiB: four of the
	// largest pieces.
	stageBytes = 512 << 10

	// pieceBytes is the largest piece in one message. 128 KiB: the peer's reader copies the first
	// pieces while the others arrive.
	pieceBytes = 128 << 10

	// directBytes is the smallest write that is not copied. 64 KiB: below, the wait for the
	// completion costs as much as the copy.
	directBytes = 64 << 10

	// dataRecords is the number of pieces in flight until the provider has completed them.
	dataRecords = 64

	// controlRecords is the number of send-queue records for other messages. 32: the rules in
	// flow.go allow five in flight, and the provider may complete them long after the peer has
	// received them.
	controlRecords = 32

	// maxSetups is the number of connections in set-up, or waiting for Accept, at one listener.
	maxSetups = 128
)

// with returns the configuration with its defaults and a device for network.
func (cfg *Config) with(network string) (Config, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	if c.Ring == 0 {
		c.Ring = defaultRing
	}
	if c.Ring < minRing || c.Ring > maxRing {
		return c, fmt.Errorf("rconn: a ring of %d bytes: it has at least %d and at most %d", c.Ring, minRing, maxRing)
	}
	c.Ring = 1 << bits.Len(uint(c.Ring-1))
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	if c.Device == nil {
		dev, err := rnic.Open(network, rnic.DeviceConfig{})
		if err != nil {
			return c, err
		}
		c.Device = dev
	}
	if p := c.Device.Caps().Provider; p != network {
		return c, fmt.Errorf("rconn: network %q with a device of provider %q", network, p)
	}
	return c, nil
}
