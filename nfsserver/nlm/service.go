// The service: files with locks, and the loops that serve those who wait for one.

// Package nlm serves the network lock manager, version 4 (RFC 1813 appendix II), and the network
// status monitor, beside an nfsserver.Server and on its ports. Use it to let clients lock files.
//
//	locks, err := nlm.New(server, nlm.Options{}) // with a StateDir clients get their locks back after a restart
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer locks.Close()
//	service, err := server.Start(nfsserver.Listen{RDMA: "127.0.0.1:0", Programs: locks.Programs()})
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

// Internals: the locks of each file are in lockset.go, and all together are also taken on the file
// itself, as those of one program (nfsserver.Locker). A lock that another program holds is tried
// every now and then. caller.go calls clients back until they answer. statd.go receives restarts,
// gone.go finds clients that are gone, monitor.go has the clients on stable storage, notify.go
// notifies them after a start, and deadlock.go finds circles.
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

// Options makes a Service. The zero value keeps nothing between runs.
type Options struct {
	// StateDir is where the clients to be told of a restart are kept, and the number of this start;
	// "": nowhere. It is made, with mode 0700, where it is not there.
	StateDir string
	// Grace is how long after a start clients may reclaim their locks and take no others, where
	// there are clients that had some; 0: 50 s, as long as Linux's.
	Grace time.Duration
	// Gone is how long a client that does not answer keeps locks that others wait for (gone.go); 0:
	// 10 minutes, negative: for good.
	Gone time.Duration
	// Local is the address to call clients from, which take no callback from another than they
	// know; the zero value: any of this machine.
	Local netip.Addr
	// Names are what clients may know this machine as, beside its addresses; nil: its host name.
	Names []string
	// Logger takes lines for an operator: lost locks, clients that cannot be kept. Clients cause at
	// most one a second of each text. nil: slog.Default(); slog.DiscardHandler silences it.
	Logger *slog.Logger
}

const defaultGrace = 50 * time.Second

// A Service is the locks of one Server. All methods may be called at once.
type Service struct {
	// Set once.
	srv    *nfsserver.Server
	opts   Options
	portOf func(ctx context.Context, addr netip.Addr, prog, vers uint32) (uint16, error)
	pause  time.Duration // between two looks at files that other programs have locked

	graceEnd atomic.Pointer[time.Time] // of the period to reclaim in; nil: there is none
	foreign  atomic.Pointer[time.Time] // when a program of this machine last kept a client waiting; nil: never

	ledger  ledger
	monitor monitor
	waits   waitGraph
	absent  absence
	looked  time.Time             // of goneLoop: when it last looked for clients that are gone
	reach   func(netip.Addr) bool // reports whether a machine is up
	probes  chan struct{}         // has room for each that is asked
	callers callers
	tally   tally
	udp     *transport.Server
	log     transport.RateLog

	ctx  context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup // all goroutines

	mu     sync.Mutex // guards all below
	files  map[fileKey]*file
	polled map[*file]bool // with waiters that other programs keep waiting; they are users
	wake   chan struct{}  // polled is not empty any more
}

// programsFor is how long after the last look at a file that another program has locked programs
// may be in a circle.
const programsFor = time.Minute

// pollPause is how long after another program has released a lock a client that waits for it has
// it, at most.
const pollPause = 200 * time.Millisecond

// New returns the service of a Server's locks. It tells the clients of an earlier run to reclaim
// theirs. Its only error is ErrInUse.
func New(srv *nfsserver.Server, o Options) (*Service, error) {
	s := newService(srv, o)
	if err := s.monitor.load(o.StateDir); err != nil {
		return nil, err
	}
	s.start()
	return s, nil
}

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

// mostFiles is how many files can have locks: each takes a descriptor, of those that no other limit
// counts on.
func mostFiles() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 64
	}
	return int(min(max(l.Cur/16, 64), 8<<10))
}

// start starts the loops. Grace begins.
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

// Grace returns how long it is until clients can take new locks; 0: they can.
func (s *Service) Grace() time.Duration {
	if end := s.graceEnd.Load(); end != nil {
		return max(0, time.Until(*end))
	}
	return 0
}

// Close ends the loops and releases all locks. No call may be running or follow. Clients that have
// locks are told with the next start. Loops that a file system keeps waiting are left after some
// seconds, as the calls of a transport.Server are.
func (s *Service) Close() {
	s.end()
	_ = s.udp.Shutdown(s.ctx) // which has ended: a NOTIFY that runs is made again
	over := make(chan struct{})
	go func() {
		s.work.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, f := range s.files {
			if f.users == 0 { // no call has been left behind in it
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

// stuckWait is how long Close waits.
const stuckWait = 5 * time.Second

// hold returns the file of a key, locked; pair it with letGo.
func (s *Service) hold(key fileKey) *file {
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

// letGo unlocks a file, and forgets it where there is nothing to remember.
func (s *Service) letGo(f *file) {
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

// poll has a file looked at again until nobody waits for other programs any more. f.mu is held.
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

// programs are those of this machine that may be in a circle with a client, nil: none has kept a
// client waiting lately.
func (s *Service) programs(foreign bool) *programs {
	if last := s.foreign.Load(); !foreign && (last == nil || time.Since(*last) > programsFor) {
		return nil
	}
	return listPrograms()
}

// pollLoop looks at files that other programs have locked. A file system that does not answer
// keeps the files of all others waiting that other programs have locked, and nobody else.
func (s *Service) pollLoop() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		}
		select { // not at once: who asks has just found the file locked
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
			f.grant() // which has it polled again
			s.letGo(f)
		}
	}
}

// sweepInterval is how often idle clients are looked for, and exports that are no more.
const sweepInterval = 5 * time.Second

// sweepLoop forgets clients that have had no locks for a time, and the locks of exports that are no
// more. It tells file systems of the end of grace.
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

func (s *Service) sweep(now time.Time) {
	over := s.Grace() == 0
	if over {
		s.srv.EndGrace() // again: an export may have been opened since
	}
	names := s.srv.Names()
	if n := s.free(func(f *file) bool { return !slices.Contains(names, f.key.export) }, func(*host) bool { return true }); n > 0 {
		s.log.Warn("locks lost: their export is gone", "locks", n)
	}
	if err := s.monitor.retain(func() map[hostKey]bool { return s.ledger.sweep(now) }, over); err != nil {
		s.log.Warn("clients with locks cannot be kept", "error", err)
	}
}

// freeHosts releases all that some clients have, as they have started again.
func (s *Service) freeHosts(hosts []*host) {
	if n := s.free(func(*file) bool { return true }, func(h *host) bool { return slices.Contains(hosts, h) }); n > 0 {
		s.log.Warn("locks lost: their client has started again", "client", hosts[0].key.name, "peer", hosts[0].key.addr, "locks", n)
	}
}

// free releases what some clients have of some files, and returns how many locks that were. Both
// functions are called under locks.
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
		s.letGo(f)
	}
	return lost
}
