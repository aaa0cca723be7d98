// The server: its configuration, programs, listeners, and shutdown.

package transport

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// ServerConfig configures a Server. The zero value suits most programs.
type ServerConfig struct {
	Workers int // limit of concurrent calls for one connection and lane; 0: 64
	// MaxWorkers limits the concurrent calls on all connections, and thus roughly the threads in
	// disk waits. One lane among several can use about half the workers, and one client about half
	// the lane's. 0: one for each MiB of Budget, but at least 64 and at most 256.
	MaxWorkers int
	MaxRecord  int // largest TCP record, in bytes; 0: 2 MiB
	// MaxConns limits the connections; 0: 1024. A new connection above the limit replaces one
	// without any call, or idle for two minutes.
	MaxConns int
	// MaxConnsPerHost limits the connections from one IPv4 address or one IPv6 /64; 0: a quarter of
	// MaxConns, but at least 64. A new connection above the limit replaces one from the same host
	// under the same conditions.
	MaxConnsPerHost int
	// Budget bounds the bytes held by connections for large arguments and results, over TCP and
	// RDMA together; nil: RDMA.Budget, or a new one of mem.DefaultBudget.
	Budget *mem.Budget
	// HalfTimeout is how long the rest of a TCP record may take. In each HalfTimeout a TCP client
	// must accept at least 16 KiB of waiting replies. 0: 30 s.
	HalfTimeout time.Duration
	// RDMA configures the connections of ServeRDMA; its Handler is ignored, and its Budget replaced
	// by ServerConfig.Budget.
	RDMA rpcrdma.Config
	// UDP bounds the messages of ServeUDP.
	UDP UDPConfig
	// Owner returns the owner of the socket at remote that is connected to ours at local
	// (Call.Owner). Owner is called once for each TCP or RDMA connection, before the first call is
	// read. If Owner takes more than some seconds, the connection is closed. nil: ask this
	// machine's kernel.
	Owner func(local, remote netip.AddrPort) Owner
	// Security has the flavors besides AUTH_NONE and AUTH_SYS that clients may use.
	Security []SecurityFlavor
	// TLS returns the configuration for a new TLS session (RPC-with-TLS, RFC 9289), which a client
	// begins on a TCP connection, also below iWARP. The configuration needs a certificate, and
	// ClientCAs to verify clients' certificates. Its ClientAuth decides whether clients must have
	// one; by default they may have none, but an invalid one is refused. The server sets the
	// versions, ALPN and session tickets. TLS runs in many goroutines concurrently, and must not
	// wait. nil: no TLS.
	TLS func() *tls.Config
	// KernelTLS lets the Linux kernel encrypt and decrypt the sessions over TCP, if it can: it
	// needs the module tls, and for peers that change their keys Linux 6.14.
	KernelTLS bool
	// Observer is notified about connections and calls; it may be nil.
	Observer Observer
	// Logger gets lines for an operator: connections refused or closed, waiting calls, panics. A
	// peer can trigger at most one a second for each text. nil: slog.Default();
	// slog.DiscardHandler silences it.
	Logger *slog.Logger
}

func (cfg *ServerConfig) setDefaults() {
	setDefault(&cfg.Workers, defaultWorkers)
	setDefault(&cfg.MaxRecord, defaultRecord)
	setDefault(&cfg.MaxConns, 1024)
	setDefault(&cfg.MaxConnsPerHost, max(cfg.MaxConns/4, 64))
	if cfg.Budget == nil {
		cfg.Budget = cfg.RDMA.Budget
	}
	if cfg.Budget == nil {
		cfg.Budget = mem.NewBudget(mem.DefaultBudget)
	}
	cfg.RDMA.Budget = cfg.Budget
	// One lane's calls, each with a large argument, then hold at most half of the budget.
	setDefault(&cfg.MaxWorkers, max(leastWorkers, int(min(mostWorkers, cfg.Budget.Total()>>20))))
	setDefault(&cfg.HalfTimeout, defaultHalf)
	cfg.UDP.setDefaults()
	setDefault(&cfg.RDMA.Credits, rpcrdma.DefaultCredits)
	if cfg.RDMA.Fatal == nil {
		cfg.RDMA.Fatal = rpcrdma.NewFatalCalls()
	}
	// A larger record could never be charged.
	cfg.MaxRecord = int(min(int64(cfg.MaxRecord), cfg.Budget.Total()))
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// A Server serves programs over RDMA, TCP and UDP.
type Server struct {
	cfg ServerConfig
	dispatcher
	owners    owners
	secured   tlsCounts
	keyBytes  uint64        // of sessions; 0: the constant
	take      takeTLS       // nil: sessions stay in this process
	stuckWait time.Duration // stuckWait, except in tests

	mu            sync.Mutex
	closing       bool
	listeners     map[io.Closer]bool
	conns         map[serverConn]bool
	sockets       map[*udpSocket]bool // of ServeUDP
	hosts         map[netip.Prefix]*host
	unused        list.List             // serverConns without any call, oldest first
	ended         Traffic               // of ended connections
	leads         tally.Sum             // leader decisions of all receivers; has its own lock
	admittedHosts map[netip.Prefix]bool // hosts that may connect while draining; nil: all
	leaving       int                   // number of conns being closed to make room
	scanned       time.Time             // last search of conns for idle ones
	wg            sync.WaitGroup        // counts connections and sockets
}

// Mechanisms returns the leaders' decisions on all RDMA and TCP connections, ended ones included,
// under the name run_on_receiver. A call is won if its goroutine was still the leader at the call's
// end, and lost if a follower had taken over. The table is the caller's.
func (s *Server) Mechanisms() tally.Table { return s.leads.Table() }

// NewServer returns a Server for the programs. NewServer panics if two programs have the same
// number and version.
func NewServer(cfg ServerConfig, list ...*Program) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg:       cfg,
		stuckWait: stuckWait,
		listeners: map[io.Closer]bool{},
		conns:     map[serverConn]bool{},
		sockets:   map[*udpSocket]bool{},
		hosts:     map[netip.Prefix]*host{},
	}
	s.programs, s.drc, s.log, s.observer = newPrograms(list), newDRC(), &RateLog{Logger: cfg.Logger}, cfg.Observer
	s.security = cfg.Security
	s.pool.run, s.pool.shed, s.pool.stalled = s.turn, s.shed, s.warnStalled
	s.pool.clock = lead.NewClock(lead.Tick)
	s.pool.init(cfg.MaxWorkers, ownWorkers, lanesOf(list))
	s.owners.init(cfg.Owner)
	if cfg.KernelTLS {
		s.take = kernelTake
	}
	return s
}

// lanesOf returns the programs' lanes. It panics if two programs have different lanes.
func lanesOf(list []*Program) (names []string) {
	for _, p := range list {
		switch {
		case len(p.Lanes) == 0:
		case names == nil:
			names = p.Lanes
		case !slices.Equal(names, p.Lanes):
			panic("transport: programs of one Server with different lanes")
		}
	}
	return names
}

// NameLane renames lane i, an index in the programs' Lanes. If i is the number of lanes, it adds
// that lane, and Procedure.Lane may return it from then on.
func (s *Server) NameLane(i int, name string) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.name(1+i, name)
}

// warnStalled logs that calls wait for running ones, and names the more frequent cause: the running
// calls are in a file system that does not answer, or they wait until clients read replies and
// thereby release memory and workers.
func (s *Server) warnStalled(lane string, inside, of int) {
	fields := []any{"export", lane, "in-file-system", inside, "for-clients", of - inside}
	if 2*inside < of {
		s.log.Warn("calls wait for clients that do not read their replies: others are told to try again later", fields...)
		return
	}
	s.log.Warn("calls wait for a file system that does not answer: clients are told to try again later", fields...)
}

// listen registers a listener; ErrClosed if the server is closing.
func (s *Server) listen(l io.Closer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosed
	}
	s.owners.open()
	s.listeners[l] = true
	return nil
}

// unlisten forgets a listener after Accept failed with err, and returns the error for ServeTCP or
// ServeRDMA.
func (s *Server) unlisten(l io.Closer, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	if s.closing {
		return ErrClosed
	}
	return err
}

// Shutdown stops listening, waits for running calls (until ctx is done), then closes all
// connections. Shutdown returns ctx.Err() if calls were cut off. It waits some seconds more for
// procedures that ignore their Ctx; then it returns a *StuckError, and the caller must keep
// everything alive that these procedures use.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return s.gone()
	}
	s.closing = true
	var errs []error
	for l := range s.listeners {
		errs = append(errs, l.Close())
	}
	conns := make([]drainer, 0, len(s.conns)+len(s.sockets))
	for c := range s.conns {
		conns = append(conns, c)
	}
	for u := range s.sockets {
		conns = append(conns, u)
	}
	s.mu.Unlock()

	// A call that blocks its receiving goroutine keeps the connection from ending, so each wait
	// has a limit.
	drained := each(conns, drainer.drain)
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			go c.close()
		}
	})
	cut := false
	select {
	case <-drained:
	case <-ctx.Done():
		cut = true
	}
	if !stop() || cut {
		errs = append(errs, ctx.Err())
	}
	late := time.NewTimer(s.stuckWait)
	defer late.Stop()
	select {
	case <-each(conns, drainer.close):
	case <-late.C:
	}
	stuck := s.gone()
	s.owners.close()
	s.pool.close(stuck == nil)
	s.drc.close()
	return errors.Join(append(errs, stuck)...)
}

// each calls f for all conns at once. The channel is closed when all have returned.
func each(conns []drainer, f func(drainer)) <-chan struct{} {
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() { f(c) })
	}
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

// gone waits until no connection is left, for a limited time.
func (s *Server) gone() error {
	over := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(over)
	}()
	late := time.NewTimer(s.stuckWait)
	defer late.Stop()
	select {
	case <-over:
		return nil
	case <-late.C:
		return &StuckError{Lanes: s.pool.running()}
	}
}
