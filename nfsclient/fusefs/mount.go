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

// Requests to the kernel.
const (
	maxRequest    = 1 << 20 // bytes of one READ or WRITE
	maxBackground = 256     // most asynchronous requests (read-ahead, direct I/O)
	minBackground = 16      // least of them; see background
	readAhead     = 2 << 20 // bytes of kernel read-ahead, if we may set it

	// Capabilities that are off unless requested. Writes stay write-through: with a write-back
	// cache the kernel would own size and times, and break close-to-open consistency.
	capabilities = fuse.CAP_ASYNC_DIO | fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2 |
		fuse.CAP_DIRECT_IO_ALLOW_MMAP | fuse.CAP_EXPORT_SUPPORT
)

// A MountPoint is a mounted file system. It lives until any process unmounts it.
type MountPoint struct {
	// set once
	dir    string
	fs     *fileSystem
	server *fuseloop.Server
	served chan struct{} // closed after the kernel's last request
	dev    uint64        // device number of the mount; 0: unknown
}

// Mount mounts fs on the directory dir until the MountPoint is unmounted. ctx bounds only the
// mounting. The caller keeps the Client of fs and must not close it before Wait has returned. A
// process must not use files of a mount that it serves itself: a process killed during such a use
// cannot end before the mount is aborted.
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
	f.stopSleepWatch = f.watchSleep() // after f.server is set: this and all serving code use it
	serve(m.server, dir, func() {
		f.stop()
		close(m.served)
	})
	m.dev = deviceAt(dir)
	return m, nil
}

// Attach mounts any go-fuse file system with the kernel settings of Mount, to measure FUSE's own
// cost. It calls ended in a new goroutine after the kernel's last request.
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

// attach mounts with complete options; requests are not served yet.
func attach(raw fuse.RawFileSystem, dir string, opt *Options) (*fuseloop.Server, error) {
	server, err := fuseloop.Mount(raw, dir, opt.fuse())
	if err != nil {
		return nil, mountError(dir, opt, err)
	}
	return server, nil
}

// serve starts answering requests.
func serve(server *fuseloop.Server, dir string, ended func()) {
	go func() {
		server.Serve()
		ended()
	}()
	raiseReadAhead(deviceAt(dir))
}

// mountError adds advice for the user to a failed mount.
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

// background returns the kernel's limit of asynchronous requests. Their buffers, up to maxRequest
// each, use at most two thirds of the memory bound, in addition to it. Synchronous requests cannot
// be bounded, because the kernel also sends requests when programs are killed.
func (o *Options) background() int {
	return int(min(max(o.Memory/3*2/maxRequest, minBackground), maxBackground))
}

// fuse returns the options for go-fuse.
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
		// Without it the kernel would treat each new mtime as a foreign change; attrs decides that
		// instead. If no attributes are trusted, let the kernel compare at each read.
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

// words returns the mount options, ours and the user's.
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

// mountFlags are options that mount(2) takes as bits and go-fuse does not know.
var mountFlags = map[string]uintptr{
	"ro": syscall.MS_RDONLY, "rw": 0, "noatime": syscall.MS_NOATIME, "nodiratime": syscall.MS_NODIRATIME,
	"relatime": syscall.MS_RELATIME, "sync": syscall.MS_SYNCHRONOUS, "dirsync": syscall.MS_DIRSYNC, "nosymfollow": unix.MS_NOSYMFOLLOW, "atime": 0, "async": 0,
}

// lineWriter passes each log line to a function.
type lineWriter func(string)

func (w lineWriter) Write(p []byte) (int, error) {
	w(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// raiseReadAhead raises the kernel's read-ahead above its 128 KiB. The kernel then requests 1 MiB
// at a time with the next request in flight. Only root may set it. More would harm mappings,
// because the kernel reads as much around each missed page. The data path reads further ahead.
func raiseReadAhead(device uint64) {
	dev := strconv.Itoa(int(unix.Major(device))) + ":" + strconv.Itoa(int(unix.Minor(device)))
	_ = os.WriteFile("/sys/class/bdi/"+dev+"/read_ahead_kb", []byte(strconv.Itoa(readAhead>>10)), 0)
}

// deviceAt returns the device number of the mount on dir, or 0. The kernel answers from its cache
// without a request to the mount, which this process may serve.
func deviceAt(dir string) uint64 {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st) != nil {
		return 0
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor)
}

// Dir returns the mount point's directory.
func (m *MountPoint) Dir() string { return m.dir }
