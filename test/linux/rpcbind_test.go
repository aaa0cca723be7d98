// A mount without a port: our rpcbind.

package linux

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// TestMountWithoutPorts: the guest asks port 111 on the host, in their own network.
func TestMountWithoutPorts(t *testing.T) {
	enter(t, "6.1")
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	if peerName() != "" {
		withoutPorts(t)
		return
	}
	g := client(t, "6.1")
	dir := exportDir(t)
	s := &server{t: t, g: g, dir: dir, behind: 20049, rdma: 20049, tcp: 2049, args: []string{"--crc", "auto", "--rdma", "iwarp", "--rpcbind", "serve"}}
	s.start()
	t.Cleanup(s.stop)
	for _, proto := range []string{"rdma", "tcp"} {
		run(t, g, fmt.Sprintf("mount -t nfs -o vers=3,proto=%s,nolock %s:/export /mnt && cp /mnt/hello.txt /mnt/by-%s && umount /mnt", proto, g.Host, proto))
		sameFile(t, filepath.Join(dir, "by-"+proto), []byte("hello from nfsrdmad\n"))
	}
}
