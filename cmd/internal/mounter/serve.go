// The process that serves a mount: from the connection to the last write.

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

// quietInterval is how often it is looked whether a busy time of the mount is over, and memory can be given back.
const quietInterval = 10 * time.Second

// Serve mounts and serves until the mount is unmounted, or ctx ends, which unmounts
// it. ready is called once: when the mount works, or earlier where the options have
// the server be waited for in the background; nothing is written to standard error
// afterwards, but to the log.
func (r *Request) Serve(ctx context.Context, s *session.Session, log *Log, ready func()) (err error) {
	if err := r.checkFUSE(); err != nil {
		return fmt.Errorf("%s on %s: %w", r.Spec, r.Dir, err)
	}
	detached := false
	away := func(err error) {
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
			log.Line(err.Error()) // nobody reads the exit status
		}
	}()
	responding := session.SilenceNotice(r.Source.Targets[0].Hosts(), log.Line)
	fsys, err := r.connect(ctx, s, responding, log.Line, away)
	if err != nil {
		return err
	}
	defer fsys.Client().Close()
	r.notGot(fsys, log.Line)
	r.warnMapped(ctx, s, fsys, log.Line)
	m, err := fusefs.Mount(ctx, fsys, r.Dir, r.fuseOptions(log.Line))
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

// control lets the commands find this process. The mount works without it.
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

// detach unmounts by mount(2), or by fusermount3 where that is not allowed.
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

// notify tells the service manager, if there is one that asked (NOTIFY_SOCKET).
func notify(state string) { _, _ = daemon.SdNotify(false, state) }
