// From arguments to exports.

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/sirupsen/logrus"
)

// newServer makes the server of the directories in args. Its Close closes them.
func newServer(o *options, args []string) (_ *nfsserver.Server, err error) {
	exports, err := openExports(o, args)
	defer func() {
		if err != nil {
			for _, e := range exports {
				if e.FS != nil {
					e.FS.Close()
				}
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	if o.memory != "" {
		tree := memfs.New(memfs.Options{Mode: 0o1777})
		exports = append(exports, nfsserver.Export{Name: o.memory, FS: tree})
	}
	if len(exports) == 0 {
		return nil, errors.New("nothing to export: name a directory, or say --memory")
	}
	for i := range exports {
		exports[i].ReadOnly = o.readOnly
	}
	key, err := handleKey(o, len(args) > 0)
	if err != nil {
		return nil, err
	}
	return nfsserver.New(nfsserver.Options{Exports: exports, Groups: lookupGroups, Key: key, Squash: squash(o), AsyncNames: o.asyncNames})
}

// openWait is how long a directory may take to be opened before the others are served without it.
var openWait = 10 * time.Second

// An opened is what became of a directory, once done is closed.
type opened struct {
	done chan struct{}
	fs   nfsserver.FS
	err  error
}

// openExports opens each DIR or DIR=/name, all at once. One whose file system does not answer
// in time is opened while the others are served. With an error it returns those that are open.
func openExports(o *options, args []string) (exports []nfsserver.Export, err error) {
	results := make([]*opened, len(args))
	dirs := make([]string, len(args))
	for i, arg := range args {
		dir, name, named := cutName(arg)
		if dirs[i], err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		if !named {
			name = dirs[i]
		}
		exports = append(exports, nfsserver.Export{Name: path.Clean(name)})
		r := &opened{done: make(chan struct{})}
		results[i] = r
		go func() {
			r.fs, r.err = openDir(o, dirs[i])
			close(r.done)
		}()
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	for i := range exports {
		select {
		case <-results[i].done:
		case <-ctx.Done():
		}
		r := results[i]
		select {
		case <-r.done:
			if exports[i].FS = r.fs; err == nil {
				err = r.err
			}
		default:
			logrus.Warnf("%s: its file system does not answer: the others are served, and it is once it does", dirs[i])
			exports[i].Open = func() (nfsserver.FS, error) {
				<-r.done
				return r.fs, r.err
			}
		}
	}
	return exports, err
}

// newFS opens a directory; a test has it take its time.
var newFS = osfs.New

// openDir opens a directory to export.
func openDir(o *options, abs string) (nfsserver.FS, error) {
	tree, err := newFS(abs, osfs.Options{CrossMounts: o.crossmnt, SubtreeCheck: o.subtreeCheck})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("directory %s does not exist: make it, or name another", abs)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("directory %s: not permitted: run as a user who may read it", abs)
	case err != nil:
		return nil, err
	}
	if tree.LayersApart() {
		logrus.Warnf("%s: the layers of this overlay are on different file systems: the numbers of its directories change when memory is short, and clients lose them (stale file handle): mount it with xino=on", abs)
	}
	switch {
	case !tree.KeepsHandles():
		logrus.Warnf("%s: this file system does not keep its inode numbers (an overlay does with nfs_export=on): file handles end with this server, and clients must mount again after a restart", abs)
	case !tree.KernelHandles():
		logrus.Infof("%s: the kernel does not open files by handle here (no privilege, or not this file system): using inode numbers", abs)
	}
	return tree, nil
}

// cutName takes DIR=/name apart. A directory with "=/" in its name needs a name of its own.
func cutName(arg string) (dir, name string, named bool) {
	if i := strings.LastIndex(arg, "=/"); i > 0 {
		return arg[:i], arg[i+1:], true
	}
	return arg, "", false
}

// squash says as whom callers act. Without privileges, as in many containers also
// for root, all file system calls are made as the user who runs us, so that is who
// the callers are.
func squash(o *options) nfsserver.Squash {
	if osfs.ActsAsCallers() {
		return o.trust.apply(nfsserver.Squash{})
	}
	me := nfsserver.Self()
	return o.trust.apply(nfsserver.Squash{All: true, UID: me.UID, GID: me.GID, GIDs: me.GIDs})
}

// handleKey is the key of the handles: one that is kept, or none, for which the
// server takes a random one. Trees in memory end with the server, and so may their handles.
func handleKey(o *options, lasting bool) (key [nfsserver.KeySize]byte, err error) {
	if o.ephemeral || !lasting {
		return key, nil
	}
	dir := stateDir(o)
	if dir == "" {
		return key, errors.New("there is no directory to keep the key of file handles in: name one with --state-dir, or say --ephemeral-key")
	}
	if key, err = nfsserver.LoadKey(dir); err != nil {
		err = fmt.Errorf("%w; or name another --state-dir, or say --ephemeral-key, and clients have to mount again after each restart", err)
	}
	return key, err
}

// stateDir is where state is kept between runs.
func stateDir(o *options) string {
	switch {
	case o.stateDir != "":
		return o.stateDir
	case os.Getenv("XDG_STATE_HOME") != "":
		return filepath.Join(os.Getenv("XDG_STATE_HOME"), "nfsrdma")
	case os.Geteuid() == 0:
		return "/var/lib/nfsrdma"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "nfsrdma")
}
