// A mount's measurement: its parts in order, and the mounts compared with each other.

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// The measured mounts. Their names start their child processes.
const (
	MountOurs     = "mount"
	MountNull     = "null"
	MountLoopback = "loopback"
)

// treeCleanUp limits the time to remove the created files.
const treeCleanUp = 2 * time.Minute

// randDepth is how many 4 KiB reads run concurrently.
const randDepth = 32

// MountOptions select a mount's measurements.
type MountOptions struct {
	Rounds   int           // measurements for each figure; the median counts
	Depth    int           // calls in flight in the client library; a program on the mount has one
	Size     int64         // file size in bytes, rounded down to MiB, at least one
	Duration time.Duration // random-read time, in each round
	Files    int           // files in the tree; 0: no trees
}

// Check validates the options; its error names the flag.
func (o *MountOptions) Check() error {
	switch {
	case o.Rounds < 1:
		return fmt.Errorf("--rounds %d is less than 1", o.Rounds)
	case o.Depth < 1 || o.Depth > maxDepth:
		return fmt.Errorf("--depth %d is not in 1..%d", o.Depth, maxDepth)
	case o.Files < 0:
		return fmt.Errorf("--files %d is less than 0", o.Files)
	}
	return nil
}

// A MountRig has the file systems and callbacks for a mount's measurement.
type MountRig struct {
	// FS is the mounted directory, through the client library.
	FS *nfsclient.FS
	// Scratch is an empty directory in memory. The files made in it are removed.
	Scratch string
	// Loopback is the directory behind go-fuse's loopback; Same reports whether FS is that
	// directory.
	Loopback string
	Same     bool
	// Peer returns the arguments for a child process that mounts on dir. mount names the mount.
	Peer func(mount, dir string) []string
	// Clear removes a mount point, unmounting it first, and reports whether it is gone.
	Clear func(dir string) bool
}

// A mountRun is one measurement. It belongs to the goroutine that runs it.
type mountRun struct {
	run
	rig    MountRig
	opts   MountOptions
	work   string // the working directory's name, in each file system
	peers  map[string]*child.Child
	report *MountReport
}

// Mount measures a mount of the rig's directory and adds the figures to r. It removes its files and
// unmounts, also when ctx ends.
func Mount(ctx context.Context, rig MountRig, o MountOptions, r *MountReport) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	o.Size = max(o.Size/seqBlock, 1) * seqBlock
	b := &mountRun{rig: rig, opts: o, report: r, peers: make(map[string]*child.Child), work: fmt.Sprintf(".nfsrdma-bench-%d", os.Getpid())}
	b.run = run{
		fsys: rig.FS, name: path.Join(b.work, "data"), pat: newPattern(uint64(time.Now().UnixNano())),
		opts: Options{Size: o.Size}, report: &Report{},
	}
	for range max(o.Depth, randDepth) {
		b.slots = append(b.slots, newSlot(b.pat))
	}
	r.CPUs, r.Rounds, r.Size, r.Files, r.Depth = runtime.NumCPU(), o.Rounds, o.Size, o.Files, o.Depth
	err = b.makeWork(ctx)
	if errors.Is(err, syscall.EEXIST) {
		return err // an existing directory is not ours, so it must stay
	}
	defer func() { err = errors.Join(err, b.cleanUp()) }()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if err := b.data(ctx); err != nil {
		return err
	}
	r.Verified = b.run.report.Verified
	if o.Files == 0 {
		return nil
	}
	return b.trees(ctx)
}

// makeWork makes the working directory. ctx does not interrupt the MKDIR, because the server may
// carry out the call after its caller has gone, and the directory would stay.
func (b *mountRun) makeWork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	return b.fsys.Mkdir(ctx, b.work, 0o755)
}

// mountPoint returns a mount's mount point.
func (b *mountRun) mountPoint(mount string) string { return filepath.Join(b.rig.Scratch, "mnt-"+mount) }

// workDir returns a mount's working directory.
func (b *mountRun) workDir(mount string) string { return filepath.Join(b.mountPoint(mount), b.work) }

// mount mounts through a new process, with empty caches. The process outlives ctx, so that the
// mount can be unmounted.
func (b *mountRun) mount(ctx context.Context, mount string) error {
	if err := errors.Join(ctx.Err(), b.unmount(mount)); err != nil {
		return err
	}
	dir := b.mountPoint(mount)
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	c, err := child.Start(context.WithoutCancel(ctx), b.rig.Peer(mount, dir)...)
	if err == nil {
		b.peers[mount] = c
	}
	return err
}

// unmount unmounts a mount, if it is mounted, once all written data is stable.
func (b *mountRun) unmount(mount string) error {
	c := b.peers[mount]
	if c == nil {
		return nil
	}
	delete(b.peers, mount)
	if err := c.Stop(); err != nil {
		return fmt.Errorf("the process of the %s mount: %w", mount, err)
	}
	return nil
}

// cleanUp unmounts all mounts, then removes the created files.
func (b *mountRun) cleanUp() error {
	var failed error
	for _, mount := range []string{MountOurs, MountNull, MountLoopback} {
		failed = errors.Join(failed, b.unmount(mount))
		dir := b.mountPoint(mount)
		if _, err := os.Lstat(dir); os.IsNotExist(err) {
			continue
		}
		if !b.rig.Clear(dir) {
			// The server's files are below the mount point. Do not remove them through the scratch
			// directory.
			failed = errors.Join(failed, fmt.Errorf("%s is still mounted: unmount it with umount -l", dir))
		}
	}
	if b.rig.Loopback != "" {
		failed = errors.Join(failed, os.RemoveAll(filepath.Join(b.rig.Loopback, b.work)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), treeCleanUp)
	defer cancel()
	return errors.Join(failed, removeAll(ctx, b.fsys, b.work))
}

// removeAll removes a directory on the server with its contents.
func removeAll(ctx context.Context, fsys *nfsclient.FS, name string) error {
	names, err := fsys.ReadDir(ctx, name)
	for _, e := range names {
		if e.IsDir() {
			err = errors.Join(err, removeAll(ctx, fsys, path.Join(name, e.Name())))
		} else {
			err = errors.Join(err, fsys.Unlink(ctx, path.Join(name, e.Name())))
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, fsys.Rmdir(ctx, name))
}
