// Converts arguments to exports.

package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// A source is a file system to export.
type source struct {
	at    string // the source's name in messages
	name  string
	open  func() (nfsserver.FS, error)
	rules *exports.Export // nil: the flags apply
	dir   *directory      // nil: not a directory
	how   osfs.Options    // the options for opening dir
}

// A directory has the FS from its last opening, or nil before the first one.
type directory struct {
	tree atomic.Pointer[osfs.FS]
	lost atomic.Bool // closed by follow and not open again
}

// sources returns the exports in the command line: directories, each DIR or DIR=/name, or a Kind's
// volumes.
func sources(o *options, args []string) (list []source, err error) {
	if o.kind != nil {
		return o.kind.volumes(o, args)
	}
	for _, arg := range args {
		dir, name, named := cutName(arg)
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		if !named {
			name = dir
		}
		list = append(list, dirSource(dir, path.Clean(name), osfs.Options{CrossMounts: o.crossmnt, SubtreeCheck: o.subtreeCheck}))
	}
	return list, nil
}

// dirSource returns the source for a directory.
func dirSource(dir, name string, how osfs.Options) source {
	d := &directory{}
	return source{at: dir, name: name, dir: d, how: how, open: func() (nfsserver.FS, error) {
		tree, err := openDir(dir, how)
		if err != nil {
			return nil, err
		}
		d.tree.Store(tree)
		mounted, err := osfs.ReadMounts()
		switch {
		case noDescriptors(err):
			err = errDescriptors
		case err == nil && tree.Covering(mounted) != osfs.InPlace: // follow has not seen the mount
			err = errCovered
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("directory %s: %w", dir, err), tree.Close())
		}
		d.lost.Store(false)
		return tree, nil
	}}
}

// newServer makes the server for the directories in args and the exports file. Closing it closes
// them.
func newServer(o *options, args []string) (_ *nfsserver.Server, set *exportSet, err error) {
	set = newExportSet(o, args)
	list, err := set.begin(args)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			closeAll(list)
		}
	}()
	key, err := handleKey(o, o.memory == "" || len(list) > 1)
	if err != nil {
		return nil, nil, err
	}
	srv, err := nfsserver.New(nfsserver.Options{Exports: list, Groups: lookupGroups, Key: key, Squash: squash(o), Security: o.security.demands(), AsyncNames: o.asyncNames, NoACL: o.acl == "off", Auditor: o.audit.auditor(), Logger: logto.Standard})
	return srv, set, err
}

// closeAll closes exports from openExports: the open ones now, the others once they have opened.
func closeAll(list []nfsserver.Export) {
	for _, e := range list {
		if e.FS != nil {
			e.FS.Close()
			continue
		}
		go func() {
			if late, err := e.Open(); err == nil { // Open waits for the opening (firstOf)
				late.Close()
			}
		}()
	}
}

// openWait is the time after which a file system that does not open no longer delays the others.
var openWait = 10 * time.Second

// An opened is the result of opening a file system, valid once done is closed.
type opened struct {
	done chan struct{}
	fs   nfsserver.FS
	err  error
}

// openExports opens file systems concurrently. A file system that fails or takes too long is opened
// later, while the others are served. For callers that need all file systems, err is one of the
// failures: one about missing descriptors only if there is no other. Open file systems stay open.
func openExports(list []source) (exports []nfsserver.Export, err error) {
	results := make([]*opened, len(list))
	for i, src := range list {
		exports = append(exports, nfsserver.Export{Name: src.name, ByPath: src.name == src.at, Rules: src.rules})
		r := &opened{done: make(chan struct{})}
		results[i] = r
		go func() {
			r.fs, r.err = src.open()
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
			exports[i].FS = r.fs
			if err == nil || r.err != nil && errors.Is(err, errDescriptors) {
				err = r.err
			}
		default:
			logrus.Warnf("%s: its file system does not answer: the others are served, and it is once it does", list[i].at)
		}
		if exports[i].FS == nil {
			exports[i].Open = firstOf(r, list[i].open)
		}
	}
	return exports, err
}

// firstOf returns a function that opens a file system. Its first call returns the result of begun.
func firstOf(begun *opened, open func() (nfsserver.FS, error)) func() (nfsserver.FS, error) {
	return func() (nfsserver.FS, error) {
		if r := begun; r != nil {
			<-r.done
			begun = nil
			return r.fs, r.err
		}
		return open()
	}
}

// errDescriptors is the error for a directory that cannot be opened without a free file descriptor.
var errDescriptors = errors.New("no file descriptors are left for it: raise their limit (ulimit -n, LimitNOFILE= of systemd)")

func noDescriptors(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// newFS opens a directory; a test delays it.
var newFS = osfs.New

// openDir opens a directory to export.
func openDir(abs string, how osfs.Options) (*osfs.FS, error) {
	tree, err := newFS(abs, how)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("directory %s does not exist: make it, or name another%s", abs, valueHint(abs))
	case noDescriptors(err):
		return nil, fmt.Errorf("directory %s: %w", abs, errDescriptors)
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

// valueHint returns a hint about a flag's value that was written as a separate word.
func valueHint(dir string) string {
	switch filepath.Base(dir) {
	case "yes", "no", "on", "off", "true", "false":
		return " (to turn a flag off write --FLAG=false)"
	}
	return ""
}

// cutName splits DIR=/name. A directory with "=/" in its name needs an explicit name.
func cutName(arg string) (dir, name string, named bool) {
	if i := strings.LastIndex(arg, "=/"); i > 0 {
		return arg[:i], arg[i+1:], true
	}
	return arg, "", false
}

// squash returns the mapping of callers' identities. Without privileges, which root lacks in many
// containers too, all file-system calls are made as the server's user. So all callers map to it.
func squash(o *options) nfsserver.Squash {
	if o.kind != nil || osfs.ActsAsCallers() {
		return o.trust.apply(nfsserver.Squash{})
	}
	me := nfsserver.Self()
	return o.trust.apply(nfsserver.Squash{All: true, UID: me.UID, GID: me.GID, GIDs: me.GIDs})
}

// handleKey returns the stored key for file handles. If none is to be kept it returns zeros, and
// the server uses a random one. lasting is false if all trees are in memory: their handles need not
// outlive the server.
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

// stateDir returns the directory for state that persists between runs.
func stateDir(o *options) string {
	switch {
	case o.stateDir != "":
		return o.stateDir
	case os.Getenv("XDG_STATE_HOME") != "":
		return filepath.Join(os.Getenv("XDG_STATE_HOME"), o.kind.dir())
	case os.Geteuid() == 0:
		return filepath.Join("/var/lib", o.kind.dir())
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", o.kind.dir())
}
