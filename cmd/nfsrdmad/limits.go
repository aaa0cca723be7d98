// What clients may take together and each, as flags.

package main

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/spf13/pflag"
)

// leastBudget lets a few calls of the largest size run at once.
const leastBudget = 16 << 20

// limits is what the flags about limits say.
type limits struct {
	conns      int
	perHost    int
	handshakes int
	credits    int
	budget     string
}

func (m *limits) flags(f *pflag.FlagSet) {
	f.IntVar(&m.conns, "max-conns", 1024, "connections at once; one more takes the place of an idle one or is refused")
	f.IntVar(&m.perHost, "max-conns-per-host", 0, "of these, from one IPv4 address or IPv6 /64 (default: a quarter, but no fewer than 64)")
	f.IntVar(&m.handshakes, "max-handshakes", 256, "RDMA connections in start-up at once; one more takes the place of the oldest")
	f.IntVar(&m.credits, "credits", rpcrdma.DefaultCredits, "calls at once that an RDMA connection is granted")
	f.StringVar(&m.budget, "budget", "256M", "octets of data under way over RDMA, and each way over TCP (K, M or G)")
}

// apply checks the limits and sets them.
func (m *limits) apply(l *nfsserver.Listen) error {
	for _, v := range []struct {
		flag        string
		value       int
		least, most int
	}{
		{"max-conns", m.conns, 1, 1 << 20},
		{"max-conns-per-host", m.perHost, 0, 1 << 20},
		{"max-handshakes", m.handshakes, 1, 1 << 20},
		{"credits", m.credits, 1, rpcrdma.MostCredits},
	} {
		if v.value < v.least || v.value > v.most {
			return fmt.Errorf("--%s %d: want %d to %d", v.flag, v.value, v.least, v.most)
		}
	}
	budget, err := cli.ParseSize(m.budget)
	if err != nil {
		return fmt.Errorf("--budget: %w", err)
	}
	if budget < leastBudget {
		return fmt.Errorf("--budget %s: want %dM or more", m.budget, leastBudget>>20)
	}
	l.Device.MaxHandshakes = m.handshakes
	l.RPC.MaxConns, l.RPC.MaxConnsPerHost = m.conns, m.perHost
	l.RPC.Memory = budget
	l.RPC.RDMA.Credits = m.credits
	l.RPC.RDMA.Budget = rpcrdma.NewBudget(budget)
	return nil
}
