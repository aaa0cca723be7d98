// Locks of programs, decided by the server: fcntl(2) and flock(2).
//
// At a lock, clients agree on a file's content (nfs(5)). Written data goes to the server before a
// lock is taken or released. Cached data of the file is dropped after a lock is taken, regardless
// of its times: another client's write may fall in the same tick of the server's clock.

package fusefs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nlm"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// lockCapabilities returns the capabilities for handling locks here. Without them the kernel keeps
// locks itself.
func (o *Options) lockCapabilities() (caps uint64) {
	if !o.LocalPosix {
		caps |= fuse.CAP_POSIX_LOCKS
	}
	if !o.LocalFlock {
		caps |= fuse.CAP_FLOCK_LOCKS
	}
	return caps
}

// lockOptions returns the options of the mount's lock client.
func (f *fileSystem) lockOptions() nlm.Options {
	o := nlm.Options{Server: lockServer{f, new(atomic.Bool)}, Name: f.callers.machine, Dir: f.opt.LockDir,
		Source: fmt.Sprintf("%s %x", f.opt.Source, f.table.root.fh.Bytes()), Stable: f.stable(), Log: func(line string) { f.logf("%s", line) }}
	o.Listen, o.ListenNotify = announcement(f.opt.Announce).listener(f.opt.Logger), announcement(f.opt.AnnounceMonitor).listener(f.opt.Logger)
	o.From = f.fromServer
	return o
}

// SetLk takes or releases a lock without waiting for other owners.
func (f *fileSystem) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return f.setLock(opSetlk, cancel, in, false)
}

// SetLkw is SetLk that waits. Any signal with a handler ends the wait, as for a lock of a local
// file.
func (f *fileSystem) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return f.setLock(opSetlkw, cancel, in, true)
}

// setLock takes or releases a lock after sending written data. It unlocks even if sending fails,
// because the kernel drops the lock in any case.
func (f *fileSystem) setLock(what op, cancel <-chan struct{}, in *fuse.LkIn, wait bool) fuse.Status {
	r := f.begin(what, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return fuse.EBADF
	}
	h.used()
	err := f.sendDeferred(r, h.n)
	if err == nil {
		err = h.data.Settle(r)
	}
	if in.Lk.Typ == syscall.F_UNLCK {
		// The next write, fsync or close reports the lost data.
		return f.status(f.locks.Unlock(r, h.n.fh, keyOf(in), in.Lk.Start, in.Lk.End))
	}
	if err != nil {
		return f.status(err)
	}
	q := f.lockRequest(r, h, in)
	q.Wait = wait
	if err := f.locks.Lock(r, cancel, &q); err != nil {
		return f.status(f.stale(h.n, err))
	}
	r.voidCached(h.n)
	return fuse.OK
}

// GetLk returns a conflicting lock, if any.
func (f *fileSystem) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	r := f.begin(opGetlk, cancel, &in.Caller)
	defer r.end()
	h := f.handles.get(in.Fh)
	if h == nil || h.data == nil {
		return fuse.EBADF
	}
	q := f.lockRequest(r, h, in)
	holder, err := f.locks.Test(r, &q)
	switch {
	case err != nil:
		return f.status(f.stale(h.n, err))
	case holder == nil:
		out.Lk = fuse.FileLock{Typ: syscall.F_UNLCK}
	case holder.Exclusive:
		out.Lk = fuse.FileLock{Start: holder.Start, End: holder.End, Typ: syscall.F_WRLCK, Pid: holder.Pid}
	default:
		out.Lk = fuse.FileLock{Start: holder.Start, End: holder.End, Typ: syscall.F_RDLCK, Pid: holder.Pid}
	}
	return fuse.OK
}

func keyOf(in *fuse.LkIn) nlm.Key { return nlm.Key{ID: in.Owner, Flock: in.LkFlags&fuse.LK_FLOCK != 0} }

// lockRequest converts the kernel's request; in.Lk has the inclusive byte range.
func (f *fileSystem) lockRequest(r *request, h *handle, in *fuse.LkIn) nlm.Request {
	return nlm.Request{FH: h.n.fh, Key: keyOf(in), Handle: in.Fh, Pid: in.Lk.Pid, Who: r.who,
		Start: in.Lk.Start, End: in.Lk.End, Exclusive: in.Lk.Typ == syscall.F_WRLCK}
}

// closeLocks releases the remaining locks. It waits at most lastCalls for the server.
func (f *fileSystem) closeLocks() {
	ctx, cancel := context.WithTimeout(context.Background(), lastCalls)
	defer cancel()
	f.locks.Close(ctx)
}

// lastCalls bounds waiting for the server at the end of a mount.
const lastCalls = 5 * time.Second

// A lockServer sends the calls for locks.
type lockServer struct {
	fs    *fileSystem
	asked *atomic.Bool // the missing lock manager was logged
}

// NLM sends one call with the given credentials. It logs a missing lock manager once.
func (s lockServer) NLM(ctx context.Context, who any, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	client := s.fs.client
	if c, ok := who.(*caller); ok {
		client = c.client
	}
	err := client.CallLockManager(ctx, proc, args, res)
	var auth *transport.AuthError
	switch {
	case errors.Is(err, nfsclient.ErrNoLockManager):
		if ctx.Err() == nil && s.asked.CompareAndSwap(false, true) {
			s.fs.logf("locks fail with ENOLCK: %v; mount with nolock for locks between the programs of this machine only", err)
		}
		return syscall.ENOLCK
	case errors.As(err, &auth):
		return syscall.EACCES
	}
	return err
}

// Connections counts connections to the lock manager: a new one may mean a restart.
func (s lockServer) Connections() uint64 { return s.fs.client.LockManagerConnects() }

// Moves counts failovers to another server.
func (s lockServer) Moves() uint64 { return s.fs.client.Moves() }
