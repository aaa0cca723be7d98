// Exports whose directory is mounted over, or unmounted, while they are served.

package program

import (
	"context"
	"errors"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// recordServed records the served exports. The caller holds mu, or the set is not in use yet.
func (s *exportSet) recordServed(all []nfsserver.Export) {
	s.list = slices.Clone(all)
	for i := range s.list {
		s.list[i].FS, s.list[i].Open = nil, nil
	}
}

// covering returns the state of an export's directory in the mount table.
func (s *exportSet) covering(name string, mounted osfs.Mounts) osfs.Covering {
	d := s.from[name].dir
	switch {
	case d == nil || d.tree.Load() == nil:
		return osfs.InPlace // there is no open directory that a mount could cover
	case d.lost.Load():
		return osfs.Unmounted
	}
	return d.tree.Load().Covering(mounted)
}

var errUnmounted = errors.New("its file system is not mounted any more, and the directory below is not served in its place: mount it again, or reload to serve that directory")

// follow reopens an export after another file system was mounted over the directory. After the file
// system was unmounted, follow closes the export until a file system is mounted there again. An
// error means that the mount table was not read.
func (s *exportSet) follow(v *nfsserver.Service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	mounted, err := osfs.ReadMounts()
	if err != nil {
		return err
	}
	list, changed := slices.Clone(s.list), false
	for i := range list {
		src := s.from[list[i].Name]
		if s.covering(src.name, mounted) == osfs.InPlace || src.dir.lost.Swap(true) {
			continue
		}
		old := src.dir.tree.Load()
		changed = true
		logrus.WithField("export", src.name).Warn("the mount there has changed: the export is opened again")
		list[i].Open = func() (nfsserver.FS, error) {
			mounted, err := osfs.ReadMounts()
			switch {
			case err != nil:
				return nil, err
			case old.Covering(mounted) == osfs.Unmounted:
				return nil, errUnmounted
			}
			return src.open()
		}
	}
	if !changed {
		return nil
	}
	if err := v.Replace(list); err != nil {
		logrus.Errorf("exports that others have mounted over or unmounted: %v", err)
	}
	return nil
}

// followAgain is the delay before follow is retried after an error, in milliseconds.
const followAgain = 1000

// errCovered means that the mounts on a directory changed while it was opened.
var errCovered = errors.New("something was mounted there, or unmounted, while it was opened")

// watchMounts makes the exports follow the mount table until ctx ends. The kernel signals its
// changes (proc_pid_mountinfo(5)).
func (s *exportSet) watchMounts(ctx context.Context, v *nfsserver.Service) error {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return err
	}
	written := make(chan struct{})
	context.AfterFunc(ctx, func() {
		_, _ = unix.Write(stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		close(written)
	})
	go func() {
		defer unix.Close(fd)
		defer unix.Close(stop)
		defer func() { <-written }()
		for ctx.Err() == nil {
			again := -1
			if s.follow(v) != nil {
				// retry; follow also runs before the first wait, for changes since the exports were
				// opened
				again = followAgain
			}
			wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}, {Fd: int32(stop), Events: unix.POLLIN}}
			if _, err := unix.Poll(wait, again); err != nil && err != unix.EINTR {
				return
			}
		}
	}()
	return nil
}
