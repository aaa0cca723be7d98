// Limits for all clients together and for each client, as flags.

package program

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// minBudget allows a few concurrent calls of the largest size.
const minBudget = 16 << 20

// limits has the values of the flags about limits.
type limits struct {
	conns      int
	perHost    int
	handshakes int
	credits    int
	budget     string

	given func(flag string) bool // reports whether a flag is on the command line
}

// The defaults, if the descriptor limit allows them.
const (
	defaultConns      = 1024
	defaultHandshakes = 256
)

func (m *limits) flags(f *pflag.FlagSet) {
	f.IntVar(&m.conns, "max-conns", defaultConns, "accept at most `N` connections at once; one more replaces an idle one or is refused (fewer if ulimit -n is low)")
	f.IntVar(&m.perHost, "max-conns-per-host", 0, "accept at most `N` of these from one IPv4 address or IPv6 /64 (default: a quarter, at least 64)")
	f.IntVar(&m.handshakes, "max-handshakes", defaultHandshakes, "keep at most `N` RDMA connections in start-up; one more replaces the oldest")
	f.IntVar(&m.credits, "credits", rpcrdma.DefaultCredits, "grant `N` calls at once to an RDMA connection")
	m.given = f.Changed
	f.StringVar(&m.budget, "budget", "256M", "hold at most `SIZE` bytes of data in flight, with K, M or G")
}

// fit lowers the limits that are not on the command line to fit a descriptor limit. It returns a
// line about the change, or "". Half the descriptors are for connections, including those in
// start-up. Files that osfs keeps open get three eighths, and short-lived files the rest. Package
// os has already raised the limit to its maximum.
func (m *limits) fit(descriptors uint64) string {
	room := int(min(descriptors/2, 1<<20))
	if m.conns+m.handshakes <= room {
		return ""
	}
	if !m.given("max-handshakes") {
		m.handshakes = max(1, min(m.handshakes, room/4))
	}
	if m.given("max-conns") {
		if m.conns+m.handshakes <= room {
			return ""
		}
		return fmt.Sprintf("--max-conns %d is more than the limit of %d file descriptors leaves room for: raise it (ulimit -n, LimitNOFILE= of systemd)", m.conns, descriptors)
	}
	m.conns = max(1, min(m.conns, room-m.handshakes))
	return fmt.Sprintf("the limit of %d file descriptors leaves room for %d connections: raise it for more (ulimit -n, LimitNOFILE= of systemd)", descriptors, m.conns)
}

// apply validates the limits and stores them in l.
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
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		if line := m.fit(files.Cur); line != "" {
			logrus.Warn(line)
		}
	}
	budget, err := cli.ParseSize(m.budget)
	if err != nil {
		return fmt.Errorf("--budget: %w", err)
	}
	if budget < minBudget {
		return fmt.Errorf("--budget %s: want %dM or more", m.budget, minBudget>>20)
	}
	l.Device.MaxHandshakes = m.handshakes
	l.RPC.MaxConns, l.RPC.MaxConnsPerHost = m.conns, m.perHost
	l.RPC.RDMA.Credits = m.credits
	l.RPC.Budget = mem.NewBudget(budget)
	return nil
}
