// The root command: its flags, and the list of commands.

package main

import (
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/protocols"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
)

func newRoot(s *session.Session) *cobra.Command {
	root := &cobra.Command{
		Use:   "nfsrdma",
		Short: "Mount and use NFS servers over RDMA or TCP, in user space",
		Long: `nfsrdma uses NFSv3 servers over RDMA (software iWARP or RoCEv2) or over TCP. It
needs no RDMA hardware and no NFS client in the kernel. Mount an export on a
directory, or use the file commands below, which need no mount.

A remote path is nfsrdma://HOST[:PORT]/export/path or HOST:/export/path.
nfs://HOST[:PORT]/export/path is a path over TCP. The default port is 20049 for
RDMA and 2049 for TCP. Write an IPv6 address in brackets. HOST can be a list of
servers of one volume: HOST[:PORT],HOST[:PORT]. nfsrdma then uses a server that
answers, and changes to another one when that server stops answering. All of them
must serve the same files by the same handles.

If a server cannot be reached at first, a command fails after --connect-timeout,
or after --timeout if that is shorter. If a server stops answering later, the
command waits for it, as with a hard mount. It then prints "not responding, still
trying" on a terminal. Ctrl-C or --timeout ends the wait. To find the cause of a
problem, run "nfsrdma doctor SERVER".`,
		Annotations: map[string]string{cli.Protocols: protocols.List()},
		Example: `  nfsrdma demo
  nfsrdma mount server:/export /mnt
  nfsrdma ls -l nfsrdma://server/export
  nfsrdma cp -r server:/export/src ./src
  nfsrdma bench nfsrdma://server/export`,
	}
	root.AddCommand(
		newMount(s), newUmount(), newMountstats(), newLs(s), newCat(s), newCp(s), newStat(s), newMkdir(s), newRm(s), newMv(s), newLn(s),
		newDf(s), newShowmount(s), newPing(s), newDoctor(s), newTop(), newBench(s), newDemo(s), newRnicBench(), newVerbs(s), newRawTCP(), newRnicPeer(), newRawUDP(), newMountPeer(s), newServe(),
	)
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "cp", "mv":
			addConnectionFlags(cmd, s)
			cmd.ValidArgsFunction = completePaths(s, true)
		case "ls", "cat", "stat", "mkdir", "rm", "ln", "df", "bench":
			addConnectionFlags(cmd, s)
			cmd.ValidArgsFunction = completePaths(s, false)
		case "mount":
			addConnectionFlags(cmd, s)
			hideConnectionFlags(cmd)
		case "showmount", "ping", "doctor", "_mountpeer":
			addConnectionFlags(cmd, s)
		}
	}
	cli.Prepare(root, newHelper(s))
	return root
}
