// Endpoint configuration.

package rpcrdma

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// Config configures an endpoint. The zero Config suits most connections.
type Config struct {
	Credits    int // in each direction; 0: 128
	MaxCredits int // the upper limit for SetCredits; at least Credits
	// InlineSize is the size of our sends and receives in bytes: 1024 to 262144 in steps of 1024.
	// 0: DefaultInlineSize.
	InlineSize int
	MaxPull    int         // limit in bytes for one call's Read chunks; 0: 2 MiB
	MaxReply   int         // limit in bytes for a reply written to one Reply chunk; 0: 2 MiB
	Budget     *mem.Budget // bounds bytes of pulled chunks and results; nil: mem.Default()
	Fatal      *FatalCalls // records the calls that ended a connection; nil: they are not recorded
	Handler    Handler     // serves inbound calls; nil: they are dropped

	stall     time.Duration // interval of the stall check; 0: stallTick
	sendGrace time.Duration // time for a cancelled call to leave a stuck queue; 0: sendGrace
}

func (cfg *Config) setDefaults() {
	if cfg.Credits <= 0 {
		cfg.Credits = DefaultCredits
	}
	cfg.Credits = min(cfg.Credits, MostCredits)
	cfg.MaxCredits = min(max(cfg.MaxCredits, cfg.Credits), MostCredits)
	if cfg.InlineSize <= 0 {
		cfg.InlineSize = DefaultInlineSize
	}
	cfg.InlineSize = decodeSize(encodeSize(cfg.InlineSize))
	if cfg.MaxPull <= 0 {
		cfg.MaxPull = defaultMaxChunk
	}
	if cfg.MaxReply <= 0 {
		cfg.MaxReply = defaultMaxChunk
	}
	if cfg.stall <= 0 {
		cfg.stall = stallTick
	}
	if cfg.sendGrace <= 0 {
		cfg.sendGrace = sendGrace
	}
	if cfg.Budget == nil {
		cfg.Budget = mem.Default()
	}
}
