// The process that serves a mount, from the connection to the last write.

package mounter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// quietInterval is the interval of checks whether the mount is idle, to return memory.
const quietInterval = 10 * time.Second

// Serve mounts and serves until the mount is unmounted. If ctx ends, it unmounts. ready is called
// once: when the mount works, or earlier if the options let the server be awaited in the
// background. After that, output goes to the log and not to standard error.
func (r *Request) Serve(ctx context.Context, s *session.Session, log *Log, ready func()) (err error) {
	if err := r.checkFUSE(); err != nil {
		return fmt.Errorf("%s on %s: %w", r.Spec, r.Dir, err)
	}
	detached := false
	onRetry := func(err error) {
		if r.Options.Background {
			log.Line(err.Error() + "; trying again in the background")
			detached = true
			ready()
			return
		}
		log.Line(fmt.Sprintf("%v; trying again for %v", err, r.retry()))
	}
	defer func() {
		if detached && err != nil {
			log.Line(err.Error()) // the exit status is not read any more
		}
	}()
	responding := session.SilenceNotice(r.Source.Targets[0].Hosts(), log.Line)
	fsys, err := r.connect(ctx, s, responding, log.Line, onRetry)
	if err != nil {
		return err
	}
	defer fsys.Client().Close()
	r.warnUngranted(fsys, log.Line)
	r.warnMapped(ctx, s, fsys, log.Line)
	opt := r.fuseOptions(log.Line)
	opt.Kerberos = r.users(fsys.Client())
	m, err := fusefs.Mount(ctx, fsys, r.Dir, opt)
	if err != nil {
		return err
	}
	ctl := r.control(m, log)
	if !detached {
		ready()
	}
	quiet, end := context.WithCancel(ctx)
	defer end()
	go nfsserver.ReturnMemory(quiet, quietInterval)
	notify("READY=1\nSTATUS=" + r.Source.Name + " on " + r.Dir)
	err = r.untilEnd(ctx, m, log)
	if ctl != nil {
		ctl.Close(err)
	}
	return err
}

// control opens the socket through which commands reach this process. The mount works without the
// socket.
func (r *Request) control(m *fusefs.MountPoint, log *Log) *mountctl.Server {
	at, ok, err := mountctl.At(r.Dir)
	if err == nil && !ok {
		err = errors.New("it is not in mountinfo")
	}
	var ctl *mountctl.Server
	if err == nil {
		ctl, err = mountctl.Serve(at, func() any { return &Report{r.Given, m.Stats()} }, func(ctx context.Context) (bool, error) {
			err := m.Sync(ctx)
			return m.Held(), err
		})
	}
	if err != nil {
		log.Line(fmt.Sprintf("%s: nfsrdma mountstats and umount will not find this process: %v", r.Dir, err))
	}
	return ctl
}

// detach unmounts by umount2(2), or by fusermount3 if that is not permitted.
func detach(dir string, lazy bool) error {
	flags := unmountNoFollow
	if lazy {
		flags |= syscall.MNT_DETACH
	}
	err := syscall.Unmount(dir, flags)
	if errors.Is(err, syscall.EPERM) && os.Geteuid() != 0 {
		err = fusermount(dir, lazy)
	}
	return err
}

// notify sends a state to the service manager if NOTIFY_SOCKET is set.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }
