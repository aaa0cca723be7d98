// The file system that fuseloop and go-fuse call, with the state shared by all operations.

package fusefs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/nfsclient/nlm"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A fileSystem is one mount. The embedded default answers ENOSYS to operations without an
// equivalent in NFSv3 (SEEK_HOLE, ioctl, …). The kernel then behaves as its own NFSv3 client does,
// and sends no more of them.
type fileSystem struct {
	fuse.RawFileSystem

	// set once
	client   *nfsclient.Client
	opt      Options
	regs     timeouts // of everything except directories
	dirs     timeouts
	rtmax    int    // bytes of one READ
	wtmax    int    // bytes of one WRITE
	sizeMost uint64 // largest file in the root's file system; 0: unknown
	nameMax  uint32
	fsid     uint64 // of the root
	server   notifier

	table          *table
	callers        callers
	engine         *datapath.Engine
	requests       requests
	notices        notices
	dropper        pageDropper
	pruner         pruner
	poller         attrPoller
	useReaddir     atomic.Bool // list directories by READDIR
	handles        handles
	reopens        reopens
	counts         counts
	deferred       deferredNodes
	noACLs         withoutACLs
	locks          *nlm.Locks
	times          atomic.Pointer[timesKept] // of the last O_EXCL create's file system; nil: none
	stopSleepWatch func()                    // stops watching for suspend
	readOnly       sync.Once                 // logs that the export is read-only

	ticks atomic.Uint64 // the moments of attrs

	errMu sync.Mutex // guards err
	err   error      // the last failure that no program received
}

// newFileSystem builds the mount. It asks the server for the root's attributes and limits.
func newFileSystem(ctx context.Context, fs *nfsclient.FS, opt Options) (*fileSystem, error) {
	f := &fileSystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		client:        fs.Client(),
		opt:           opt,
		regs:          timeouts{opt.AcRegMin, opt.AcRegMax},
		dirs:          timeouts{opt.AcDirMin, opt.AcDirMax},
		rtmax:         fs.MaxRead(),
		wtmax:         fs.MaxWrite(),
		sizeMost:      fs.MaxFileSize(),
		nameMax:       unix.NAME_MAX,
		table:         newTable(fs.Root()),
	}
	f.useReaddir.Store(opt.NoReaddirplus)
	if opt.NoAC {
		opt.ReadAhead = -1 // data read ahead would be outdated when used
	}
	if err := opt.checkSecurity(f.client); err != nil {
		return nil, err
	}
	if opt.Cred != nil {
		f.client = f.client.As(*opt.Cred)
	}
	sent := f.stamp()
	attr, err := f.client.Getattr(ctx, fs.Root())
	if err != nil {
		return nil, err
	}
	f.fsid = attr.Fsid
	f.table.root.take(report{tick: sent.tick, sent: sent.at, attr: &attr}, f.ticks.Add(1), f.limits(&attr))
	if conf, err := f.client.Pathconf(ctx, fs.Root()); err == nil && conf.NameMax > 0 {
		f.nameMax = min(conf.NameMax, unix.NAME_MAX)
	}
	if !f.opt.NoACL {
		has, err := f.client.HasACLs(ctx)
		if err != nil {
			return nil, err
		}
		f.opt.NoACL = !has
	}
	f.callers.init(f)
	f.counts.begun = time.Now()
	f.engine = datapath.New(datapath.Config{
		ReadSize: f.rtmax, WriteSize: f.wtmax, ReadAhead: int(opt.ReadAhead),
		DirtyFile: opt.DirtyFile, DirtyMount: opt.Memory - opt.Memory/3, ReadMemory: opt.Memory / 3, Sync: opt.Sync,
		Lost: func(_ nfs3.FH, err error) { f.failed(err) },
	}, dataServer{f})
	f.locks = nlm.New(f.lockOptions())
	f.notices.init(f)
	f.requests.unseen = unseenFor
	f.deferred.fs, f.deferred.delay = f, deferFor
	f.pruner.fs = f
	f.reopens.fs, f.reopens.gaveUp = f, make(chan struct{})
	f.table.most, f.table.full = int(opt.Memory/nodeShare), f.pruner.begin
	f.table.forgetAbsent = f.notices.forgetAbsent
	f.stopSleepWatch = func() {} // a no-op until Mount has a connection to the kernel
	return f, nil
}

func (f *fileSystem) String() string { return "nfsrdma" }

// stop ends background work after the kernel's last request. It first sends all written data,
// however long that takes.
func (f *fileSystem) stop() {
	f.deferred.send()
	f.reopens.stop()
	f.handles.abandon()
	if err := f.engine.Close(context.Background()); err != nil {
		f.failed(err)
	}
	f.closeLocks()
	f.poller.stop()
	f.stopSleepWatch()
	f.notices.stop()
	f.dropper.wg.Wait() // does not block long: the connection to the kernel is gone
	f.pruner.stop()
	f.requests.stop()
}

// sync commits written data to stable storage. It gives up when ctx ends.
func (f *fileSystem) sync(ctx context.Context) {
	f.deferred.send()
	if err := f.engine.Sync(ctx); err != nil && ctx.Err() == nil {
		f.failed(err)
	}
}

// failed notes a failure that no program receives.
func (f *fileSystem) failed(err error) {
	f.errMu.Lock()
	defer f.errMu.Unlock()
	f.err = err
}

// logf prints a line to the mount's log.
func (f *fileSystem) logf(format string, args ...any) {
	if f.opt.Log != nil {
		f.opt.Log(fmt.Sprintf(format, args...))
	}
}

// lastError returns the last failure noted by failed.
func (f *fileSystem) lastError() error {
	f.errMu.Lock()
	defer f.errMu.Unlock()
	return f.err
}

// limits returns the attribute timeouts for the object type in a.
func (f *fileSystem) limits(a *nfs3.Fattr) timeouts {
	if a.Type == nfs3.TypeDir {
		return f.dirs
	}
	return f.regs
}

// A stamp is the moment when a call was sent.
type stamp struct {
	tick uint64
	at   time.Time
}

func (f *fileSystem) stamp() stamp { return stamp{f.ticks.Add(1), time.Now()} }
