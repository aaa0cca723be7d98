// The service: files with locks, and the loops that serve waiting clients.

// Package nlm serves the network lock manager, version 4 (RFC 1813 appendix II), and the network
// status monitor, beside an nfsserver.Server and on its ports. Use it to let clients lock files.
//
//	// With a StateDir clients get their locks back after a restart.
//	locks, err := nlm.New(server, nlm.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer locks.Close()
//	service, err := server.Start(nfsserver.Listen{
//		RDMA:     "127.0.0.1:0",
//		Programs: locks.Programs(),
//	})
//
// Clients exclude each other. If the FS is an nfsserver.Locker, they and the programs of this
// machine exclude each other too. A client that waits for a lock is called back when it is free.
// A request that would close a circle of waiting clients is refused.
//
// Locks end with their client: if it reports a restart, or if it has been silent for Options.Gone
// and another client needs the lock. They also end with this process. The next one notifies the
// clients, which are kept in Options.StateDir, and gives them a period of grace to reclaim locks.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package nlm

// Internals: lockset.go holds the locks of each file. Their union is also locked on the file
// itself, as the locks of one program (nfsserver.Locker). While another program's lock conflicts,
// pollLoop retries. caller.go calls clients back until they answer, statd.go receives restarts, and
// gone.go finds gone clients. monitor.go records the clients on stable storage, notify.go notifies
// them after a start, and deadlock.go finds circles.
//
// Lock order: file.mu, then one of Service.mu, callers.mu, monitor.mu, absence.mu and waitGraph.mu,
// then ledger.mu.

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/transport"
	"golang.org/x/sys/unix"
)

// Options configures a Service. The zero value stores nothing between runs.
type Options struct {
	// StateDir stores this start's number, and the clients to notify after a restart; "": nothing
	// is stored. A missing directory is created with mode 0700.
	StateDir string
	// Grace is the time after a start in which clients may reclaim their locks and take no new
	// ones. It applies only if clients had locks in the last run. 0: 50 s, as in Linux.
	Grace time.Duration
	// Gone is the silence after which a client loses locks awaited by others (gone.go); 0: 10
	// minutes, negative: never.
	Gone time.Duration
	// Local is the source address of calls to clients. A client accepts callbacks only from the
	// address it knows. The zero value: any address of this machine.
	Local netip.Addr
	// Names are the names by which clients may know this machine, besides its addresses; nil: its
	// host name.
	Names []string
	// Logger receives lines for an operator: lost locks, unrecordable clients. Clients cause at
	// most one line a second of each text. nil: slog.Default(); slog.DiscardHandler silences it.
	Logger *slog.Logger
}

const defaultGrace = 50 * time.Second

// A Service holds the locks of one Server. Its methods may be called concurrently.
type Service struct {
	// Set once.
	srv    *nfsserver.Server
	opts   Options
	portOf func(ctx context.Context, addr netip.Addr, prog, vers uint32) (uint16, error)
	pause  time.Duration // between two polls of files locked by other programs

	graceEnd atomic.Pointer[time.Time] // of the grace period; nil: there is none
	foreign  atomic.Pointer[time.Time] // a local program last blocked a client; nil: never

	ledger  ledger
	monitor monitor
	waits   waitGraph
	absent  absence
	looked  time.Time             // by goneLoop only: time of its last round
	reach   func(netip.Addr) bool // reports whether a machine is up
	probes  chan struct{}         // semaphore for concurrent probes
	callers callers
	tally   tally
	udp     *transport.Server
	log     transport.RateLog

	ctx  context.Context // Close cancels it
	end  context.CancelFunc
	work sync.WaitGroup // all goroutines

	mu     sync.Mutex // guards all below
	files  map[fileKey]*file
	polled map[*file]bool // with waiters blocked by other programs; counted in users
	wake   chan struct{}  // signals a non-empty polled
}

// programsFor is how long after a conflict with a local program searches for circles include
// programs.
const programsFor = time.Minute

// pollPause is the longest delay between another program's release and the grant to a waiting
// client.
const pollPause = 200 * time.Millisecond

// New returns the lock service of a Server. It notifies an earlier run's clients, which then
// reclaim their locks. Its only error is ErrInUse.
func New(srv *nfsserver.Server, o Options) (*Service, error) {
	s := newService(srv, o)
	if err := s.monitor.load(o.StateDir); err != nil {
		return nil, err
	}
	s.start()
	return s, nil
}

// newService makes a Service without goroutines. Tests replace portOf and reach before start.
func newService(srv *nfsserver.Server, o Options) *Service {
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	if o.Gone == 0 {
		o.Gone = defaultGone
	}
	if o.Names == nil {
		if name, err := os.Hostname(); err == nil {
			o.Names = []string{name}
		}
	}
	s := &Service{srv: srv, opts: o, pause: pollPause, files: map[fileKey]*file{}, polled: map[*file]bool{}, wake: make(chan struct{}, 1)}
	s.portOf, s.log.Logger, s.monitor.log = s.askPort, o.Logger, o.Logger
	s.ledger.init(defaultBounds(mostFiles()))
	s.callers.hosts = map[hostKey]*caller{}
	s.waits.init()
	s.reach, s.probes, s.absent.left = s.probe, make(chan struct{}, probeAtOnce), map[netip.Addr]*absent{}
	s.udp = transport.NewServer(transport.ServerConfig{Budget: mem.NewBudget(udpBudget), Logger: o.Logger}, s.statProgram())
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// mostFiles returns the highest number of files with locks, each with a descriptor: a sixteenth of
// the descriptor limit, which no other limit uses.
func mostFiles() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 64
	}
	return int(min(max(l.Cur/16, 64), 8<<10))
}

// start starts the loops and the grace period.
func (s *Service) start() {
	if lost := s.monitor.lost(); len(lost) > 0 {
		s.graceEnd.Store(new(time.Now().Add(s.opts.Grace)))
		s.work.Go(func() { s.notifyLoop(lost) })
	}
	s.work.Go(s.pollLoop)
	s.work.Go(s.sweepLoop)
	if s.opts.Gone > 0 {
		s.work.Go(s.goneLoop)
		s.work.Go(s.backLoop)
	}
}

// Grace returns the time until clients can take new locks; 0: they can now.
func (s *Service) Grace() time.Duration {
	if end := s.graceEnd.Load(); end != nil {
		return max(0, time.Until(*end))
	}
	return 0
}

// Close ends the loops and releases all locks. No call may be running or follow. The next start
// notifies clients with locks. Loops blocked in a file system are abandoned after stuckWait, like
// the calls of a transport.Server.
func (s *Service) Close() {
	s.end()
	_ = s.udp.Shutdown(s.ctx) // the context has ended: a client repeats its running NOTIFY
	over := make(chan struct{})
	go func() {
		s.work.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, f := range s.files {
			if f.users == 0 { // no abandoned call uses the file
				f.shut()
			}
		}
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(stuckWait):
	}
	s.monitor.close()
}

// stuckWait is how long Close waits for the loops.
const stuckWait = 5 * time.Second

// lockFile returns a key's file, with mu locked; pair the call with unlockFile.
func (s *Service) lockFile(key fileKey) *file {
	s.mu.Lock()
	f := s.files[key]
	if f == nil {
		f = &file{key: key, svc: s}
		s.files[key] = f
	}
	f.users++
	s.mu.Unlock()
	f.mu.Lock()
	return f
}

// unlockFile unlocks a file, and forgets it if it is empty and unused.
func (s *Service) unlockFile(f *file) {
	f.mu.Unlock()
	s.mu.Lock()
	f.users--
	gone := f.users == 0 && f.empty()
	if gone {
		delete(s.files, f.key)
	}
	s.mu.Unlock()
	if gone {
		f.shut()
	}
}

// poll makes pollLoop retry f, until no waiter is blocked by other programs. f.mu is held.
func (s *Service) poll(f *file) {
	s.foreign.Store(new(time.Now()))
	s.mu.Lock()
	if !s.polled[f] {
		s.polled[f] = true
		f.users++
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// programs returns the local programs that can be in a circle with a client; nil: no program has
// blocked a client lately.
func (s *Service) programs(foreign bool) *programs {
	if last := s.foreign.Load(); !foreign && (last == nil || time.Since(*last) > programsFor) {
		return nil
	}
	return listPrograms()
}

// pollLoop retries files locked by other programs. A hanging file system delays the other polled
// files, and nothing else.
func (s *Service) pollLoop() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		}
		select { // not at once, because the request has just found the file locked
		case <-s.ctx.Done():
			return
		case <-time.After(s.pause):
		}
		s.mu.Lock()
		list := make([]*file, 0, len(s.polled))
		for f := range s.polled {
			list = append(list, f)
		}
		clear(s.polled)
		s.mu.Unlock()
		for _, f := range list {
			f.mu.Lock()
			f.grant() // grant polls the file again if necessary
			s.unlockFile(f)
		}
	}
}

// sweepInterval is the interval between looks for idle clients and removed exports.
const sweepInterval = 5 * time.Second

// sweepLoop forgets clients without locks after a time, and frees removed exports' locks. It
// informs file systems when the grace period ends.
func (s *Service) sweepLoop() {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			s.sweep(now)
		}
	}
}

// sweep is one round of sweepLoop.
func (s *Service) sweep(now time.Time) {
	over := s.Grace() == 0
	if over {
		s.srv.EndGrace() // repeated, because an export may have been opened since
	}
	names := s.srv.Names()
	if n := s.free(func(f *file) bool { return !slices.Contains(names, f.key.export) }, func(*host) bool { return true }); n > 0 {
		s.log.Warn("locks lost: their export is gone", "locks", n)
	}
	if err := s.monitor.retain(func() map[hostKey]bool { return s.ledger.sweep(now) }, over); err != nil {
		s.log.Warn("clients with locks cannot be kept", "error", err)
	}
}

// freeHosts releases all locks, waiters and shares of restarted clients.
func (s *Service) freeHosts(hosts []*host) {
	if n := s.free(func(*file) bool { return true }, func(h *host) bool { return slices.Contains(hosts, h) }); n > 0 {
		s.log.Warn("locks lost: their client has started again", "client", hosts[0].key.name, "peer", hosts[0].key.addr, "locks", n)
	}
}

// free releases matching clients' locks, waiters and shares on matching files, and returns the
// number of locks. It calls of under Service.mu and gone under file.mu.
func (s *Service) free(of func(*file) bool, gone func(*host) bool) (lost int) {
	s.mu.Lock()
	var list []*file
	for _, f := range s.files {
		if of(f) {
			f.users++
			list = append(list, f)
		}
	}
	s.mu.Unlock()
	for _, f := range list {
		f.mu.Lock()
		lost += f.free(gone)
		s.unlockFile(f)
	}
	return lost
}
