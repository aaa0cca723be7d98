// The end of a mount's process: by an unmount or by a signal.

package mounter

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
)

// A signalled process checks every mountCheckInterval whether its mount has left the tree. After
// elsewhereChecks such checks in a row, programs in another mount namespace must be keeping the
// mount.
const (
	mountCheckInterval = time.Second
	elsewhereChecks    = 5
)

// untilEnd returns when the mount is gone and all data is written, or known to be lost.
func (r *Request) untilEnd(ctx context.Context, m *fusefs.MountPoint, log *Log) error {
	ended := make(chan error, 1)
	go func() { ended <- m.Wait() }() // ends with the mount or the process
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// A second signal ends the process even if data is not written.
	signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	notify("STOPPING=1")
	unmounted := make(chan error, 1)
	go func() { unmounted <- m.Unmount() }() // also ends with the mount or the process
	err := r.awaitUnmount(unmounted, m)
	select {
	case err := <-ended:
		return err
	default:
	}
	if err == nil {
		return m.Wait()
	}
	return r.abandon(m, log, err)
}

// errElsewhere means that the mount has left this tree and is still in use.
var errElsewhere = errors.New("another mount namespace has it")

// awaitUnmount waits for the result of Unmount. If the mount has left our tree and the kernel still
// holds the mount, another namespace has a copy, which may never end.
func (r *Request) awaitUnmount(unmounted <-chan error, m *fusefs.MountPoint) error {
	tick := time.NewTicker(mountCheckInterval)
	defer tick.Stop()
	for gone := 0; gone < elsewhereChecks; {
		select {
		case err := <-unmounted:
			return err
		case <-tick.C:
			if _, ok := mountctl.Listed(m.Device()); ok {
				gone = 0
			} else {
				gone++
			}
		}
	}
	return errElsewhere
}

// abandon gives up a mount that cannot be unmounted: it writes back the data of programs, makes
// later changes fail, and logs one line for the user.
func (r *Request) abandon(m *fusefs.MountPoint, log *Log, why error) error {
	at, listed := mountctl.Listed(m.Device())
	covered := errors.Is(why, fusefs.ErrCovered)
	if listed && !covered {
		if err := detach(r.Dir, true); err != nil {
			log.Line(fmt.Sprintf("%s: %v", r.Dir, err))
		}
	}
	err := m.Abandon()
	line := fmt.Sprintf("detached while it was in use (%v): programs that still use it get errors", why)
	switch {
	case covered && listed:
		line = "another mount stands on top: what was written is on the server; unmount that one, then clear this one with nfsrdma umount " + at.Dir
	case covered:
		line = "was detached before: programs that still use it get errors"
	}
	log.Line(r.Dir + ": " + line)
	return err
}
