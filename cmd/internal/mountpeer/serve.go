// Serving a mount until the process that measures ends it, and the mounts that stand beside ours.

// Package mountpeer is the mounts that a measurement compares: each a process of its own, so that
// none shares a scheduler with the program that uses it.
package mountpeer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
)

// Ready is the line that a mount's process writes when the mount works.
const Ready = "ready"

// Null serves a file of size bytes with the settings of our mounts, until in ends.
func Null(dir string, size uint64, in io.Reader, out io.Writer) error {
	root := os.Geteuid() == 0
	ended := make(chan struct{})
	server, err := fusefs.Attach(newNull(size), dir, fusefs.Options{Source: "null", AllowOther: root, Direct: root}, func() { close(ended) })
	if err != nil {
		return err
	}
	return untilEnd(server, ended, in, out)
}

// Loopback serves the directory root by go-fuse's own loopback file system, with the options of the
// example that comes with it, until in ends.
func Loopback(dir, root string, in io.Reader, out io.Writer) error {
	tree, err := fs.NewLoopbackRoot(root)
	if err != nil {
		return err
	}
	second := time.Second
	o := &fs.Options{AttrTimeout: &second, EntryTimeout: &second, NullPermissions: true}
	o.FsName, o.Name = root, "loopback"
	o.DirectMount = os.Geteuid() == 0
	server, err := fs.Mount(dir, tree, o)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		server.Wait()
		close(ended)
	}()
	return untilEnd(server, ended, in, out)
}

// An unmounter is a server of FUSE, ours or go-fuse's.
type unmounter interface{ Unmount() error }

// untilEnd says that the mount works, and unmounts it when in ends.
func untilEnd(server unmounter, ended <-chan struct{}, in io.Reader, out io.Writer) error {
	if _, err := fmt.Fprintln(out, Ready); err != nil {
		return errors.Join(err, server.Unmount())
	}
	_, _ = io.Copy(io.Discard, in)
	if err := server.Unmount(); err != nil {
		return err
	}
	select {
	case <-ended:
	case <-time.After(copiedWait): // another mount namespace has a copy, which the end of this process ends
	}
	return nil
}

// copiedWait is how long the kernel may take to end a connection of which nothing is mounted any more.
const copiedWait = 2 * time.Second

// Clear detaches what is mounted on dir and was left behind by a process that was killed. It reports
// whether nothing is mounted there any more.
func Clear(dir string) bool {
	if os.Remove(dir) == nil {
		return true
	}
	_ = unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	return os.Remove(dir) == nil
}
