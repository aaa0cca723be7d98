// What the help texts and the manual pages say.

package main

import "github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"

var programHelp = program.Help{
	Use:   "nfsrdmad-juicefs",
	Short: "NFSv3 server of JuiceFS volumes, over RDMA (software iWARP) and TCP",
	Long: `nfsrdmad-juicefs serves JuiceFS volumes by NFS version 3 over RPC-over-RDMA, on a software RNIC that needs no
RDMA hardware and no kernel module, and over TCP. It opens them in its own process: there is no FUSE mount.
Any number of servers on any machines serve one volume, and clients go on at another one when theirs dies.

Its commands and flags are those of nfsrdmad(8), which serves directories. A volume is made by nfsrdmad-juicefs format,
or, in a directory of this machine, by nfsrdmad-juicefs serve itself.`,
	Example: `  nfsrdmad-juicefs serve /srv/volume
  nfsrdmad-juicefs serve --addr 0.0.0.0 redis://10.0.0.9/1=/vol`,
}

var serveHelp = program.Help{
	Use:   "serve VOLUME[=/name]...",
	Short: "Export volumes",
	Long: `Export JuiceFS volumes by NFS version 3, over RDMA and over TCP; MOUNT is served on both ports.

A volume is the URL of its metadata service, as for juicefs mount: redis://, rediss://, postgres://, mysql://, tikv://,
etcd:// or badger://. Passwords are better left to the environment, as there: META_PASSWORD, and META_PASSWORD_FILE
for Redis. Or it is a directory of this machine, in which there is a volume with nothing to set up, metadata in Badger and
objects in files, for one server at a time. In a directory that is empty or not there one is made, whose root belongs to
who owns the directory.

A volume is exported under /name, or under its own name (one in a directory: its absolute path), to all that can reach
the server. Servers of one volume have to give it the same name, for clients that go from one to another. The
key of its file handles is kept in the volume itself. With an exports file (--exports), in the grammar of exports(5), it
says who may use the volumes, and how: its paths are their names, and it has to name all of them. SIGHUP or
nfsrdmad-juicefs reload takes a changed file in, and opens the file of --audit again. A server that has neither leaves SIGHUP
alone: it goes on when its terminal is closed. Ctrl-C and SIGTERM end it.

The rights of callers are checked by the server, from modes, owners and ACLs, and need no privileges of it: callers are
their AUTH_SYS user, group and groups, but root is nobody unless --no-root-squash. Callers on this machine are
who the kernel says they are, unless --trust-local; other machines are believed, there is no other
authentication: serve only networks that you trust.

The server makes no backups of the metadata, as juicefs mount does each hour: leave these to a mount, to juicefs dump,
or to the metadata service. What it holds of data is lost with it, and clients write it again: nothing is told
to be stable before the object storage has it.`,
	Example: `  # a volume in a directory, for clients on this machine; it is made if there is none
  nfsrdmad-juicefs serve /srv/volume

  # one of many servers of a volume, to everybody who can reach the address
  nfsrdmad-juicefs format --storage s3 --bucket https://s3.example.org/data redis://10.0.0.9/1 data
  nfsrdmad-juicefs serve --addr 0.0.0.0 redis://10.0.0.9/1=/vol

  # with blocks cached on a local disk, and clients and their rights in a file: /vol 10.0.0.0/24(rw)
  nfsrdmad-juicefs serve --addr 0.0.0.0 --exports /etc/nfsrdma/juicefs-exports --cache-dir /var/cache/nfsrdma --cache-size 100G redis://10.0.0.9/1=/vol`,
}
