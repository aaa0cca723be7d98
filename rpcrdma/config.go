// How an endpoint is configured.

package rpcrdma

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// Config is how an endpoint behaves. The zero value is right for most.
type Config struct {
	Credits    int         // both ways; 0: 128
	MaxCredits int         // the most that SetCredits may grant; less than Credits: those
	InlineSize int         // our send and receive size in bytes, 1024..262144 in steps of 1024; 0: DefaultInlineSize
	MaxPull    int         // the most bytes one call's Read chunks may hold; 0: 2 MiB
	MaxReply   int         // the most bytes of a reply that we write into one Reply chunk; 0: 2 MiB
	Budget     *mem.Budget // process-wide bound of the bytes of pulled chunks and results; nil: mem.Default()
	Fatal      *FatalCalls // calls that cost a connection, of all connections of the service; nil: none is remembered
	Handler    Handler     // serves inbound calls; nil: there is no service, calls are dropped

	stall     time.Duration // how often the end of all progress is looked for; 0: stallTick
	sendGrace time.Duration // for a cancelled call to leave, while the peer takes nothing; 0: sendGrace
}

// What stands for a zero in Config.
const (
	DefaultCredits  = 128
	defaultMaxChunk = 2 << 20
	MostCredits     = 4096 // whatever Config asks for
)

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
