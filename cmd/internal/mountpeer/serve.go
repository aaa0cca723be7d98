// Serves a mount until the measuring process ends it; also has the other mounts in a comparison.

// Package mountpeer has the mounts that a measurement compares. Each runs in a separate process, so
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

// Ready is the line that a mount's process writes once the mount works.
const Ready = "ready"

// Null serves a file of size bytes with our mounts' settings until in ends.
func Null(dir string, size uint64, in io.Reader, out io.Writer) error {
	root := os.Geteuid() == 0
	ended := make(chan struct{})
	server, err := fusefs.Attach(newNull(size), dir, fusefs.Options{Source: "null", AllowOther: root, Direct: root}, func() { close(ended) })
	if err != nil {
		return err
	}
	return untilEnd(server, ended, in, out)
}

// Loopback serves the directory root through go-fuse's loopback file system, with the options of
// its example, until in ends.
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

// An unmounter is a FUSE server, ours or go-fuse's.
type unmounter interface{ Unmount() error }

// untilEnd reports that the mount works, and unmounts it when in ends.
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
	case <-time.After(copiedWait): // a copy in another mount namespace ends with this process
	}
	return nil
}

// copiedWait is the time for the kernel to end a connection after its last unmount.
const copiedWait = 2 * time.Second

// Clear detaches a mount on dir left by a killed process. It reports whether dir is free of mounts.
func Clear(dir string) bool {
	if os.Remove(dir) == nil {
		return true
	}
	_ = unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	return os.Remove(dir) == nil
}
