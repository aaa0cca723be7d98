// After a crash of this machine: whether its server may be told.

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

// A tellTime bounds what the server's status monitor and its port mapper can take.
const tellTime = 15 * time.Second

// stable is what the locks of the mount keep beyond a crash of the machine; nil: nothing.
func (f *fileSystem) stable() *nlm.Stable {
	if f.opt.StableDir == "" || f.opt.Boot == "" {
		return nil
	}
	return &nlm.Stable{Net: network(), Dir: f.opt.StableDir, Boot: f.opt.Boot, Restarted: f.restarted,
		Peer: func() string { return strings.ReplaceAll(f.client.ServerAddress(), "/", "_") }}
}

// firstNet is the machine's own network namespace from Linux 6.17 on, where process 1 is not ours
// to ask.
const firstNet = "net:[4026531833]"

// network names the network namespace of this thread, which is the process's; "" where it is not
// known, for all mounts alike.
func network() string {
	net, _ := os.Readlink("/proc/thread-self/ns/net")
	if first, err := os.Readlink("/proc/1/ns/net"); err == nil && net == first || net == firstNet {
		return "machine"
	}
	// The number in the link is given again to the namespaces that come after one's end, and
	// records outlive that. The cookie is not.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return net
	}
	defer unix.Close(fd)
	if cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil { // Linux 5.14
		net += " " + strconv.FormatUint(cookie, 10)
	}
	return net
}

// restarted tells a server, which then frees the locks of other mounts of this machine as well.
// Those of the kernel may have some by now, and their status monitor has told it when the machine
// started; those of users, who have no record, may have some, too.
func (f *fileSystem) restarted(ctx context.Context, server, name string, state int32) error {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer mounts.Close()
	if err := otherMounts(mounts, server); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	return f.client.NotifyRestart(ctx, server, name, state)
}

var (
	errKernelMounts = errors.New("the kernel has mounts of it, whose locks it would free too if it were told of the start")
	errUserMounts   = errors.New("users have mounts, whose locks it would free too if it were told of the start")
)

// otherMounts is the error of a list of mounts (proc_pid_mountinfo(5)) that has one of the kernel's
// NFSv3 from a server, by its address, or one of a user by FUSE: of which server that is its name
// does not say for sure.
func otherMounts(mountinfo io.Reader, server string) error {
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		_, rest, _ := strings.Cut(lines.Text(), " - ") // type, source and options of the file system
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
	return lines.Err() // of a list that was not read to its end nothing is known
}
