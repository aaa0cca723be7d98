// The end of the process that serves a mount: by an unmount, or by a signal.

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

// lookEvery and elsewhere are how often a signalled process looks whether its mount is gone from the
// tree, and how often it must have been until programs of another mount namespace are what keeps it.
const (
	lookEvery = time.Second
	elsewhere = 5
)

// untilEnd returns when the mount is gone and everything is written, or known to be lost.
func (r *Request) untilEnd(ctx context.Context, m *fusefs.MountPoint, log *Log) error {
	ended := make(chan error, 1)
	go func() { ended <- m.Wait() }() // ends with the mount, or the process
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// A second signal ends the process, though data is not written.
	signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	notify("STOPPING=1")
	unmounted := make(chan error, 1)
	go func() { unmounted <- m.Unmount() }() // likewise
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

// errElsewhere is a mount that is gone from this tree, and still used.
var errElsewhere = errors.New("another mount namespace has it")

// awaitUnmount waits for the result of Unmount. Where the mount is gone from our tree and the kernel
// still holds it, a copy of it is in another namespace, whose end may never come.
func (r *Request) awaitUnmount(unmounted <-chan error, m *fusefs.MountPoint) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for gone := 0; gone < elsewhere; {
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

// abandon gives up a mount that cannot be unmounted: what programs have written is written back,
// later changes fail, and what the user is to know is one line.
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
