// After a crash of this machine: deciding whether to notify its server.

package fusefs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient/nlm"
	"golang.org/x/sys/unix"
)

// notifyTimeout bounds the calls to the server's status monitor and port mapper.
const notifyTimeout = 15 * time.Second

// stable returns the settings for lock records that survive a crash; nil: the mount keeps none.
func (f *fileSystem) stable() *nlm.Stable {
	if f.opt.StableDir == "" || f.opt.Boot == "" {
		return nil
	}
	return &nlm.Stable{Net: network(), Dir: f.opt.StableDir, Boot: f.opt.Boot, Restarted: f.restarted,
		Peer: func() string { return strings.ReplaceAll(f.client.ServerAddress(), "/", "_") }}
}

// initialNetNS is the machine's initial network namespace since Linux 6.17. It is used if /proc/1
// is not accessible.
const initialNetNS = "net:[4026531833]"

// network names the network namespace of this thread, which is the process's. The name is "" for
// all mounts if /proc does not show the namespace.
func network() string {
	net, _ := os.Readlink("/proc/thread-self/ns/net")
	if first, err := os.Readlink("/proc/1/ns/net"); err == nil && net == first || net == initialNetNS {
		return "machine"
	}
	// The kernel reuses the number in the link after a namespace ends, but records outlive it. So
	// add the cookie, which is never reused (SO_NETNS_COOKIE, since Linux 5.14).
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return net
	}
	defer unix.Close(fd)
	if cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil {
		net += " " + strconv.FormatUint(cookie, 10)
	}
	return net
}

// restarted notifies a server, which then frees the locks of all this machine's mounts. So
// restarted refuses if other mounts may hold locks. For kernel mounts the machine's status monitor
// has already notified the server at boot. Users' mounts have no record but may hold locks too.
func (f *fileSystem) restarted(ctx context.Context, server, name string, state int32) error {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer mounts.Close()
	if err := otherMounts(mounts, server); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	return f.client.NotifyRestart(ctx, server, name, state)
}

// Reasons not to notify a server.
var (
	errKernelMounts = errors.New("the kernel has mounts of it, whose locks it would free too if it were told of the start")
	errUserMounts   = errors.New("users have mounts, whose locks it would free too if it were told of the start")
)

// otherMounts scans a mount table (proc_pid_mountinfo(5)). It returns an error if the table has a
// kernel NFSv3 mount from the address server. A user's FUSE mount is an error too, because its
// source does not reliably name the server.
func otherMounts(mountinfo io.Reader, server string) error {
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		_, rest, _ := strings.Cut(lines.Text(), " - ") // type, source, options
		f := strings.Fields(rest)
		if len(f) != 3 {
			continue
		}
		options := "," + f[2] + ","
		switch f[0] {
		case "nfs":
			if strings.Contains(options, ",vers=3,") && strings.Contains(options, ",addr="+server+",") {
				return errKernelMounts
			}
		case "fuse.nfsrdma":
			if !strings.Contains(options, ",user_id=0,") {
				return errUserMounts
			}
		}
	}
	return lines.Err() // an incomplete list proves nothing
}
