// Which RDMA provider a Client uses: iWARP, RoCE, or the one that the server answers by.

package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

// A Provider is the wire protocol below RPC-over-RDMA.
type Provider uint8

// The providers.
const (
	IWARP        Provider = iota // over TCP
	RoCE                         // RoCEv2, over UDP port 4791
	AutoProvider                 // iWARP and, if the server does not take that, RoCE
)

var providerNames = [...]string{"iwarp", "roce", "auto"}

func (p Provider) String() string {
	if int(p) < len(providerNames) {
		return providerNames[p]
	}
	return fmt.Sprintf("provider %d", uint8(p))
}

// ParseProvider reads "iwarp", "roce" or "auto".
func ParseProvider(s string) (Provider, error) {
	for i, name := range providerNames {
		if s == name {
			return Provider(i), nil
		}
	}
	return 0, fmt.Errorf("provider %q is none of iwarp, roce and auto", s)
}

// device opens an RNIC of the provider.
func (o *Options) device(p Provider) *rnic.Device {
	cfg := rnic.DeviceConfig{CRC: o.CRC, KeepThreads: o.KeepThreads}
	if p == RoCE {
		return roce.Open(cfg)
	}
	return iwarp.Open(cfg)
}

// autoShare is the part of the time for a connection that AutoProvider gives to iWARP.
const autoShare = 2

// dialProviders makes the first connection. The Client stays with the provider that has made it.
func (c *Client) dialProviders(ctx context.Context, t Target) error {
	switch {
	case c.opt.Transport != RDMA || c.opt.Device != nil:
		c.foreign = c.opt.Device != nil
		return c.dialFirst(ctx, t)
	case c.opt.Provider != AutoProvider:
		c.opt.Device = c.opt.device(c.opt.Provider)
		return c.dialFirst(ctx, t)
	}
	first := ctx
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		first, cancel = context.WithTimeout(ctx, time.Until(end)/autoShare)
		defer cancel()
	}
	c.opt.Device, c.opt.Provider = c.opt.device(IWARP), IWARP
	err := c.dialFirst(first, t)
	if err == nil || ctx.Err() != nil {
		return err
	}
	c.opt.Device, c.opt.Provider = c.opt.device(RoCE), RoCE
	if second := c.dialFirst(ctx, t); second != nil {
		return errors.Join(fmt.Errorf("over iWARP: %w", err), fmt.Errorf("over RoCE: %w", second))
	}
	return nil
}
