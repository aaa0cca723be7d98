// Mount: attaching the file system to a directory, and detaching it.

package fusefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs/fuseloop"
)

// What is asked of the kernel.
const (
	maxRequest    = 1 << 20 // bytes of one READ or WRITE
	maxBackground = 256     // asynchronous requests: read-ahead, direct I/O; the least and the most,
	minBackground = 16      // see background
	readAhead     = 2 << 20 // bytes that the kernel reads ahead, where we may say so

	// capabilities that are off unless asked for. Writes stay write-through: with a write-back
	// cache the kernel would own size and times, and close-to-open were lost.
	capabilities = fuse.CAP_ASYNC_DIO | fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2 |
		fuse.CAP_DIRECT_IO_ALLOW_MMAP | fuse.CAP_EXPORT_SUPPORT
)

// A MountPoint is a mounted file system. It lives until it is unmounted, by whomever.
type MountPoint struct {
	// set once
	dir    string
	fs     *fileSystem
	server *fuseloop.Server
	served chan struct{} // closed when the kernel sends no more
	dev    uint64        // the number of the mount, as device; 0: not known
}

// Mount mounts fs on the directory dir, which then shows it until the Mount is
// unmounted. ctx bounds the mounting alone. The Client of fs stays the caller's and must
// not be closed before Wait has returned. A process must not use files of a mount that
// it serves itself: should it be killed meanwhile, it can not end before the mount is aborted.
func Mount(ctx context.Context, fs *nfsclient.FS, dir string, opt Options) (*MountPoint, error) {
	if err := opt.setDefaults(); err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, errors.Unwrap(err))
	} else if !st.IsDir() {
		return nil, fmt.Errorf("mount %s: %w", dir, syscall.ENOTDIR)
	}
	f, err := newFileSystem(ctx, fs, opt)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	m := &MountPoint{dir: dir, fs: f, served: make(chan struct{})}
	m.server, err = attach(f, dir, &f.opt)
	if err != nil {
		f.stop()
		return nil, err
	}
	f.server = m.server
	f.wakeful = f.watchSleep() // which uses f.server, as all that serve begins
	serve(m.server, dir, func() {
		f.stop()
		close(m.served)
	})
	m.dev = deviceAt(dir)
	return m, nil
}

// Attach mounts any file system of go-fuse with what Mount asks of the kernel, so that what FUSE
// itself costs can be measured. ended is called in a goroutine of its own once the kernel sends no
// more.
func Attach(raw fuse.RawFileSystem, dir string, opt Options, ended func()) (*fuseloop.Server, error) {
	if err := opt.setDefaults(); err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	server, err := attach(raw, dir, &opt)
	if err != nil {
		return nil, err
	}
	serve(server, dir, ended)
	return server, nil
}

// attach is Attach with options that are complete, up to where the requests begin.
func attach(raw fuse.RawFileSystem, dir string, opt *Options) (*fuseloop.Server, error) {
	server, err := fuseloop.Mount(raw, dir, opt.fuse())
	if err != nil {
		return nil, mountError(dir, opt, err)
	}
	return server, nil
}

// serve begins to answer requests.
func serve(server *fuseloop.Server, dir string, ended func()) {
	go func() {
		server.Serve()
		ended()
	}()
	raiseReadAhead(deviceAt(dir))
}

// mountError says what a user can do about a mount that failed.
func mountError(dir string, opt *Options, err error) error {
	switch {
	case opt.AllowOther && !opt.Direct && os.Geteuid() != 0:
		return fmt.Errorf("mount %s: with AllowOther, which users may give where /etc/fuse.conf has the line user_allow_other: %w", dir, err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("mount %s: there is no /dev/fuse here: load the module fuse, or give the container that device (%w)", dir, err)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("mount %s: not allowed: mount as root, or install fusermount3 (%w)", dir, err)
	}
	return fmt.Errorf("mount %s: %s", dir, strings.TrimSpace(err.Error()))
}

// background is how many asynchronous requests the kernel may send: their buffers, up to maxRequest
// each, are two thirds of the bound of memory again at most. Those that a program waits for cannot
// be bounded: a kernel that is not listened to cannot be told either that a program was killed.
func (o *Options) background() int {
	return int(min(max(o.Memory/3*2/maxRequest, minBackground), maxBackground))
}

// fuse is what go-fuse is told.
func (o *Options) fuse() *fuse.MountOptions {
	out := log.New(io.Discard, "", 0)
	if o.Log != nil {
		out = log.New(lineWriter(o.Log), "", 0)
	}
	mo := &fuse.MountOptions{
		AllowOther:           o.AllowOther,
		FsName:               o.Source,
		Name:                 "nfsrdma",
		MaxWrite:             maxRequest,
		MaxBackground:        o.background(),
		CongestionThreshold:  o.background() * 3 / 4,
		DisableSplice:        true,    // a reply of 1 MiB does not fit a pipe
		DisableXAttrs:        o.NoACL, // the kernel then asks for none, not even before it writes
		EnableSymlinkCaching: true,
		ExtraCapabilities:    capabilities | o.lockCapabilities(),
		DisableReadDirPlus:   o.NoReaddirplus,
		DirectMountStrict:    o.Direct,
		Logger:               out,
		// The kernel would take each new mtime for a foreign change; which are is decided here.
		// Where no attributes are trusted the kernel shall ask, and compare, at each read.
		ExplicitDataCacheControl: o.AcRegMax > 0,
	}
	if !o.NoACL {
		mo.ExtraCapabilities |= fuse.CAP_DONT_MASK // see newMode
	}
	flags := uintptr(syscall.MS_NOSUID | syscall.MS_NODEV)
	for _, opt := range o.words() {
		if f, ok := mountFlags[opt]; ok && o.Direct {
			flags |= f
			continue
		}
		mo.Options = append(mo.Options, opt)
	}
	mo.DirectMountFlags = flags
	return mo
}

// words are those of the mount, ours and the user's.
func (o *Options) words() []string {
	var words []string
	if o.ReadOnly {
		words = append(words, "ro")
	}
	if o.DefaultPermissions {
		words = append(words, "default_permissions")
	}
	words = append(words, o.FuseOptions...)
	if o.AllowOther && !o.DefaultPermissions {
		words = append(words, "nodev") // see special.go
	}
	return words
}

// mountFlags are the words that mount(2) takes as bits and go-fuse does not know.
var mountFlags = map[string]uintptr{
	"ro": syscall.MS_RDONLY, "rw": 0, "noatime": syscall.MS_NOATIME, "nodiratime": syscall.MS_NODIRATIME,
	"relatime": syscall.MS_RELATIME, "sync": syscall.MS_SYNCHRONOUS, "dirsync": syscall.MS_DIRSYNC, "nosymfollow": unix.MS_NOSYMFOLLOW, "atime": 0, "async": 0,
}

// lineWriter gives each line of a log to a function.
type lineWriter func(string)

func (w lineWriter) Write(p []byte) (int, error) {
	w(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// raiseReadAhead has the kernel read further ahead than its 128 KiB, so that it asks for 1 MiB
// at a time and has the next on its way. Only root may. What a network needs beyond that the data
// path reads ahead: the kernel would read as much around each page that a mapping misses.
func raiseReadAhead(device uint64) {
	dev := strconv.Itoa(int(unix.Major(device))) + ":" + strconv.Itoa(int(unix.Minor(device)))
	_ = os.WriteFile("/sys/class/bdi/"+dev+"/read_ahead_kb", []byte(strconv.Itoa(readAhead>>10)), 0)
}

// deviceAt is the device number of what is mounted on dir, 0 where that cannot be known. The
// kernel answers from its cache: nothing is asked of the mount, which this process may serve.
func deviceAt(dir string) uint64 {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st) != nil {
		return 0
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor)
}

// Dir is the directory that is mounted on.
func (m *MountPoint) Dir() string { return m.dir }
