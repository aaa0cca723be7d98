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
	return &nlm.Stable{Dir: f.opt.StableDir, Boot: f.opt.Boot, Peer: strings.ReplaceAll(f.client.ServerAddress(), "/", "_"), Restarted: f.restarted}
}

// restarted tells the server, which then frees the locks of the kernel's mounts as well. Where there are some of this server they
// may have locks by now; and their status monitor has told it when the machine started.
func (f *fileSystem) restarted(ctx context.Context, name string, state int32) error {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer mounts.Close()
	if kernelMounts(mounts, f.client.ServerAddress()) {
		return errKernelMounts
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	return f.client.NotifyRestart(ctx, name, state)
}

var errKernelMounts = errors.New("the kernel has mounts of it, whose locks it would free too if it were told of the start")

// kernelMounts reports whether a list of mounts (proc_pid_mountinfo(5)) has one of NFSv3 from a server, by its address.
func kernelMounts(mountinfo io.Reader, server string) bool {
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		_, rest, _ := strings.Cut(lines.Text(), " - ") // type, source and options of the file system
		if f := strings.Fields(rest); len(f) == 3 && f[0] == "nfs" {
			options := "," + f[2] + ","
			if strings.Contains(options, ",vers=3,") && strings.Contains(options, ",addr="+server+",") {
				return true
			}
		}
	}
	return false
}
