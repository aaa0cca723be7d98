// The RDMA provider of a Client: iWARP, RoCE, or whichever the server answers.

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
	IWARP        Provider = iota // iWARP over TCP
	RoCE                         // RoCEv2, over UDP port 4791
	AutoProvider                 // iWARP, then RoCE if the server does not accept iWARP
)

var providerNames = [...]string{"iwarp", "roce", "auto"}

func (p Provider) String() string {
	if int(p) < len(providerNames) {
		return providerNames[p]
	}
	return fmt.Sprintf("provider %d", uint8(p))
}

// ParseProvider parses "iwarp", "roce" or "auto".
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
	cfg := rnic.DeviceConfig{CRC: o.CRC, BlockThreads: o.BlockThreads}
	if p == RoCE {
		return roce.Open(cfg)
	}
	return iwarp.Open(cfg)
}

// AutoProvider gives iWARP at most half the time for a connection, then RoCE a quarter of the rest.
// A host without RoCE never answers, and a server with RoCE answers at once.
const (
	autoIWARPShare = 2
	autoRoCEShare  = 4
)

// withShare returns ctx with one of n equal shares of the remaining time.
func withShare(ctx context.Context, n time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/n)
	}
	return context.WithCancel(ctx)
}

// dialProviders makes the first connection. The Client keeps the successful provider.
func (c *Client) dialProviders(ctx context.Context, t Target) error {
	switch {
	case c.opt.Transport != RDMA || c.opt.Device != nil:
		c.foreign = c.opt.Device != nil
		return c.dialFirst(ctx, t)
	case c.opt.Provider == AutoProvider && c.cfg.TLS != nil:
		c.opt.Provider = IWARP // RoCE has no TLS
		fallthrough
	case c.opt.Provider != AutoProvider:
		c.opt.Device = c.opt.device(c.opt.Provider)
		return c.dialFirst(ctx, t)
	}
	first, cancel := withShare(ctx, autoIWARPShare)
	defer cancel()
	c.opt.Device, c.opt.Provider = c.opt.device(IWARP), IWARP
	err := c.dialFirst(first, t)
	var rejected *rnic.RejectError // the server would reject RoCE as well
	if err == nil || ctx.Err() != nil || errors.As(err, &rejected) {
		return err
	}
	c.opt.Device, c.opt.Provider = c.opt.device(RoCE), RoCE
	roceCtx, cancelRoCE := withShare(ctx, autoRoCEShare)
	defer cancelRoCE()
	if second := c.dialFirst(roceCtx, t); second != nil {
		return errors.Join(fmt.Errorf("over iWARP: %w", err), fmt.Errorf("over RoCE: %w", second))
	}
	return nil
}
