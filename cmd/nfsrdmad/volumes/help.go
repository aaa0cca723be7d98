// The texts of help and manual pages.

package volumes

import "github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"

var programHelp = program.Help{
	Use:   "nfsrdmad-juicefs",
	Short: "Serve JuiceFS volumes by NFSv3 over RDMA and TCP, in user space",
	Long: `nfsrdmad-juicefs serves JuiceFS volumes by NFS version 3 over RDMA (software iWARP
and RoCEv2) and over TCP. It needs no RDMA hardware, no kernel module and no FUSE
mount. Any number of servers on any machines can serve one volume. If one of them
fails, its clients continue at another one.

Its commands and flags are those of nfsrdmad(8), which serves directories. To make a
volume, run nfsrdmad-juicefs format. In a directory of this machine,
nfsrdmad-juicefs serve makes one itself.`,
	Example: `  nfsrdmad-juicefs serve /srv/volume
  nfsrdmad-juicefs serve --addr 0.0.0.0 redis://10.0.0.9/1=/vol`,
}

var serveHelp = program.Help{
	Use:   "serve VOLUME[=/name]...",
	Short: "Export volumes",
	Long: `Export JuiceFS volumes by NFS version 3, over RDMA and TCP. MOUNT is served on both
ports.

A volume is the URL of its metadata service, as for juicefs mount: redis://,
rediss://, postgres://, mysql://, tikv://, etcd:// or badger://. Put passwords in the
environment: META_PASSWORD, or META_PASSWORD_FILE for Redis.

A volume can also be a directory of this machine, for one server at a time. It has
metadata in Badger and objects in files, and needs no set-up. If the directory is
empty or missing, a volume is made. Its root belongs to the owner of the directory.

A volume is exported under /name, or under its own name. A volume in a directory has
its absolute path as its name. All servers of a volume must give it the same name,
for clients that change from one to another. The file-handle key is kept in the
volume. All hosts that can reach the server can use it. An exports file (--exports)
says which clients can use the volumes, and how. Its grammar is that of exports(5).
Its paths are the names of the volumes, and it must name all of them.

SIGHUP or nfsrdmad-juicefs reload makes the server read a changed exports file, and
open the audit log again. A server with neither ignores SIGHUP, so it survives the
end of its terminal. Ctrl-C and SIGTERM end the server.

The server checks the rights of callers from modes, owners and ACLs, and needs no
privileges. A caller is its AUTH_SYS user, group and groups. Root is nobody, unless
--no-root-squash. For callers on this machine the kernel names the user, unless
--trust-local. Callers on other machines name their user themselves, without other
authentication. So serve only networks that you trust.

The server does not back up the metadata, as juicefs mount does each hour. Use a
mount, juicefs dump or the metadata service for that. Data in the memory of the server
is lost with it, and clients write it again. The server reports data as stable only
when the object storage has it.`,
	Example: `  # a volume in a directory, made if there is none, for clients on this machine
  nfsrdmad-juicefs serve /srv/volume

  # one of many servers of a volume, for all hosts that can connect
  nfsrdmad-juicefs format --storage s3 --bucket https://s3.example.org/data \
      redis://10.0.0.9/1 data
  nfsrdmad-juicefs serve --addr 0.0.0.0 redis://10.0.0.9/1=/vol

  # with a cache on a local disk, and an exports file with /vol 10.0.0.0/24(rw)
  nfsrdmad-juicefs serve --addr 0.0.0.0 --exports /etc/nfsrdma/juicefs-exports \
      --cache-dir /var/cache/nfsrdma-juicefs --cache-size 100G \
      redis://10.0.0.9/1=/vol`,
}
