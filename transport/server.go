// The server: its programs, its connections, and how it ends.

package transport

import (
	"container/list"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// ServerConfig sizes a Server. The zero value is right for most.
type ServerConfig struct {
	Workers int // calls of one connection and one lane that run at once; 0: 64
	// MaxWorkers is the most calls of all connections that run at once, and so about how many
	// threads procedures that wait for disks can take. A lane can have half of them, one client
	// half of that. 0: 256, or fewer, but at least 64, where Budget has less than 1 MiB for each.
	MaxWorkers int
	MaxRecord  int // the most bytes of one TCP record; 0: 2 MiB
	// MaxConns is the most connections at once; 0: 1024. When one more comes, one
	// that has made no call yet, or none for two minutes, has to make room.
	MaxConns int
	// MaxConnsPerHost is the most of them from one IPv4 address or one IPv6 /64; 0: a
	// quarter of MaxConns, but no fewer than 64. When one more comes, one of the same
	// host has to make room as above.
	MaxConnsPerHost int
	// Budget bounds the bytes that connections hold for large arguments and results, over
	// TCP and RDMA together; nil: RDMA.Budget, or one of mem.DefaultBudget of its own.
	Budget *mem.Budget
	// HalfTimeout is how long the rest of a TCP record may take, and how long a
	// TCP client may take no byte of its replies; 0: 30 s.
	HalfTimeout time.Duration
	// RDMA sizes the connections of ServeRDMA; its Handler is not used, and its Budget is
	// the one above.
	RDMA rpcrdma.Config
	// Owner says who has the socket at remote that is connected to ours at local (Call.Owner).
	// It is asked once for each TCP or RDMA connection, before its first call is read, and has
	// some seconds to answer, or the connection is closed. nil: this machine's kernel.
	Owner func(local, remote netip.AddrPort) Owner
	// Observer is told of connections and calls; nil: nobody is.
	Observer Observer
	// Logger takes lines for an operator: connections refused or cut off, calls that wait, panics.
	// A peer causes at most one a second of each text. nil: slog.Default(); slog.DiscardHandler
	// silences it.
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
	// Calls of one lane, each with a large argument, then hold no more than half of the budget.
	setDefault(&cfg.MaxWorkers, max(leastWorkers, int(min(mostWorkers, cfg.Budget.Total()>>20))))
	setDefault(&cfg.HalfTimeout, defaultHalf)
	setDefault(&cfg.RDMA.Credits, rpcrdma.DefaultCredits)
	if cfg.RDMA.Fatal == nil {
		cfg.RDMA.Fatal = rpcrdma.NewFatalCalls()
	}
	cfg.MaxRecord = int(min(int64(cfg.MaxRecord), cfg.Budget.Total())) // or a record could never be taken
}

// Values of ServerConfig that are not given.
const (
	defaultWorkers = 64
	defaultRecord  = 2 << 20
	defaultHalf    = 30 * time.Second

	leastWorkers = 64
	mostWorkers  = 256
	ownWorkers   = 8 // of each lane
)

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// A Server serves programs over RDMA and TCP alike.
type Server struct {
	cfg ServerConfig
	dispatcher
	owners    owners
	stuckWait time.Duration // stuckWait

	mu        sync.Mutex
	closing   bool
	listeners map[io.Closer]bool
	conns     map[serverConn]bool
	hosts     map[netip.Prefix]*host
	fresh     list.List             // of serverConn: those that have made no call, the oldest first
	ended     Traffic               // of connections that have ended
	guests    map[netip.Prefix]bool // hosts that may connect while the server is drained; nil: all may
	leaving   int                   // of conns, those that were told to make room
	scanned   time.Time             // when conns was looked through for idle ones
	wg        sync.WaitGroup        // one for each connection
}

// NewServer returns a Server of the programs. It panics where two have the same
// number and version.
func NewServer(cfg ServerConfig, list ...*Program) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg:       cfg,
		stuckWait: stuckWait,
		listeners: map[io.Closer]bool{},
		conns:     map[serverConn]bool{},
		hosts:     map[netip.Prefix]*host{},
	}
	s.programs, s.drc, s.log, s.observer = newPrograms(list), newDRC(), &RateLog{Logger: cfg.Logger}, cfg.Observer
	s.pool.run, s.pool.shed, s.pool.stalled = s.turn, s.shed, s.warnStalled
	s.pool.init(cfg.MaxWorkers, ownWorkers, lanesOf(list))
	s.owners.init(cfg.Owner)
	return s
}

// lanesOf is the lanes of the programs. It panics where two have different ones.
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

// NameLane gives lane i of the programs, an index of their Lanes, another name; where i is one more
// than there are the Server has that lane from now on, and Procedure.Lane may return it.
func (s *Server) NameLane(i int, name string) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.name(1+i, name)
}

// warnStalled says that calls wait, and for which others: for those in a file system that does not
// answer, or for those that wait until clients take replies and so give back memory and workers.
// Where there are both, the more count.
func (s *Server) warnStalled(lane string, inside, of int) {
	fields := []any{"export", lane, "in-file-system", inside, "for-clients", of - inside}
	if 2*inside < of {
		s.log.Warn("calls wait for clients that do not read their replies: others are told to try again later", fields...)
		return
	}
	s.log.Warn("calls wait for a file system that does not answer: clients are told to try again later", fields...)
}

// listen registers a listener; ErrClosed when the server is closing.
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

// unlisten forgets a listener whose Accept ended with err, and tells what its Serve returns.
func (s *Server) unlisten(l io.Closer, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	if s.closing {
		return ErrClosed
	}
	return err
}

// Shutdown stops listening, lets running calls end (until ctx is done), then
// closes all connections. It returns ctx.Err() when calls had to be cut off.
// Procedures that ignore their Ctx are waited for for some seconds more; then it returns a
// *StuckError, and what they use must be left alone.
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
	conns := make([]serverConn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()

	var drained sync.WaitGroup
	for _, c := range conns {
		drained.Go(c.drain)
	}
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			go c.close()
		}
	})
	drained.Wait()
	if !stop() {
		errs = append(errs, ctx.Err())
	}
	var closed sync.WaitGroup
	for _, c := range conns {
		closed.Go(c.close)
	}
	closed.Wait()
	stuck := s.gone()
	s.owners.close()
	s.pool.close(stuck == nil)
	s.drc.close()
	return errors.Join(append(errs, stuck)...)
}

// stuckWait is how long Shutdown waits for procedures whose connections are gone.
const stuckWait = 5 * time.Second

// gone waits until no connection is left, but not for ever.
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

// acceptBackoff is how long to wait after a failed Accept that may succeed
// later (the process is out of file descriptors).
const acceptBackoff = 50 * time.Millisecond
