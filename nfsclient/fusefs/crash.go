// After a crash of this machine: whether its server may be told.

package fusefs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient/nlm"
)

// A tellTime bounds what the server's status monitor and its port mapper can take.
const tellTime = 15 * time.Second

// stable is what the locks of the mount keep beyond a crash of the machine; nil: nothing.
func (f *fileSystem) stable() *nlm.Stable {
	if f.opt.StableDir == "" || f.opt.Boot == "" {
		return nil
	}
	// "" where it is not known, for all mounts alike.
	net, _ := os.Readlink("/proc/self/ns/net")
	if first, err := os.Readlink("/proc/1/ns/net"); err == nil && net == first {
		net = "machine"
	}
	return &nlm.Stable{Net: net, Dir: f.opt.StableDir, Boot: f.opt.Boot, Restarted: f.restarted,
		Peer: func() string { return strings.ReplaceAll(f.client.ServerAddress(), "/", "_") }}
}

// restarted tells a server, which then frees the locks of other mounts of this machine as well. Those of the kernel may have some by
// now, and their status monitor has told it when the machine started; those of users, who have no record, may have some, too.
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

// otherMounts is the error of a list of mounts (proc_pid_mountinfo(5)) that has one of the kernel's NFSv3 from a server, by its
// address, or one of a user by FUSE: of which server that is its name does not say for sure.
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
