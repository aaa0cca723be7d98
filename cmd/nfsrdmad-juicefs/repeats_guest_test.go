// A Linux client whose server dies after executing a call and before replying: the kernel repeats
// the call at the volume's other server.

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// repeats lists commands in order. In each, one call loses its reply.
var repeats = []struct {
	name    string
	proc    uint32
	command string
}{
	{"MKDIR", nfs3.ProcMkdir, "mkdir d"},
	{"CREATE", nfs3.ProcCreate, "set -C; echo text > d/f"}, // noclobber: opens with O_EXCL
	{"SYMLINK", nfs3.ProcSymlink, "ln -s f d/s"},
	{"MKNOD", nfs3.ProcMknod, "mkfifo d/p"},
	{"LINK", nfs3.ProcLink, "ln d/f d/g"},
	{"RENAME", nfs3.ProcRename, "mv d/f d/h"},
	{"RENAME of a directory", nfs3.ProcRename, "mv d e"},
	{"REMOVE of one name of two", nfs3.ProcRemove, "rm e/g"},
	{"REMOVE", nfs3.ProcRemove, "grep -q text e/h && rm e/h"},
	{"REMOVE in a tree", nfs3.ProcRemove, "rm -r e"},
	{"MKDIR in a tree", nfs3.ProcMkdir, "mkdir -p a/b/c"},
	{"RMDIR", nfs3.ProcRmdir, "rmdir a/b/c"},
	{"RMDIR in a tree", nfs3.ProcRmdir, "rm -r a"},
}

// TestLinuxRepeatsAtAnotherServer: no program gets EEXIST or ENOENT because the dead server had
// already executed the repeated call.
func TestLinuxRepeatsAtAnotherServer(t *testing.T) {
	if os.Getenv("NFSRDMA_LINUX") == "" {
		t.Skip("the Linux suite runs with NFSRDMA_LINUX=1, as in ./test/run")
	}
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	_, url := juicefstest.Redis(t)
	juicefstest.Format(t, url, juicefstest.StartS3(t))
	servers := []*process{startProcess(t, url), startProcess(t, url)}
	c := bootClient(t, "6.1")
	r := startRelay(t, c.g.Listen, servers[0].addr())
	c.run("client_up")
	c.mount(fmt.Sprintf("proto=tcp,port=%[1]d,mountproto=tcp,mountport=%[1]d,nolock", r.port()))
	for i, repeat := range repeats {
		r.loses(repeat.proc)
		ended := make(chan error, 1)
		go func() {
			_, err := c.try("cd /mnt && " + repeat.command)
			ended <- err
		}()
		select {
		case <-r.lost:
		case err := <-ended:
			t.Fatalf("%s: %s makes no such call: %v", repeat.name, repeat.command, err)
		}
		dies := servers[i%2]
		r.move(servers[1-i%2].addr())
		dies.kill()
		if err := <-ended; err != nil {
			t.Errorf("%s, whose reply was lost: %v", repeat.name, err)
		}
		dies.start()
	}
	if left := strings.TrimSpace(c.run("ls -A /mnt")); left != "" {
		t.Errorf("in the end there are %q", left)
	}
	c.run("umount /mnt")
}
